package io.lancespark.sql;

import io.lancespark.LanceCatalog;
import io.lancespark.python.LanceException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.NamedParameterContext;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.parser.TemporalIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rewrites the Lance statements that Spark's grammar lacks to procedure calls, then delegates to Spark's parser.
 *
 * <p>Any other text is passed on unchanged.
 */
public final class LanceParser implements ParserInterface {
  private static final String CHANGES_USAGE =
      "lance_changes takes the name of a table, a first and, if wanted, a last version, as in lance_changes('db.t', 1, 3)";

  private final SparkSession session;
  private final ParserInterface delegate;

  public LanceParser(SparkSession session, ParserInterface delegate) {
    this.session = session;
    this.delegate = delegate;
  }

  private String rewritten(String text, ParameterContext parameters) {
    String call =
        LanceStatements.rewrite(text, parts -> resolve(session, parts), value -> named(value, parameters));
    return call == null ? text : call;
  }

  /** The name in IDENTIFIER, which is a string or the marker of a named parameter; null for anything else. */
  private List<String> named(String value, ParameterContext parameters) {
    try {
      Expression expression = null;
      if (!value.startsWith(":")) {
        expression = value.equals("?") ? null : delegate.parseExpression(value);
      } else if (parameters instanceof NamedParameterContext given) {
        expression = given.params().get(value.substring(1)).getOrElse(() -> null);
      }
      boolean isText = expression instanceof Literal literal && literal.value() instanceof UTF8String;
      return isText
          ? CollectionConverters.asJava(delegate.parseMultipartIdentifier(((Literal) expression).value().toString()))
          : null;
    } catch (ParseException error) {
      throw LanceException.sneaky(error);
    }
  }

  /** The qualified name of a table, catalog first; null if the catalog is not a Lance catalog. */
  static List<String> resolve(SparkSession session, List<String> parts) {
    CatalogManager catalogs = session.sessionState().catalogManager();
    if (parts.size() > 1 && catalogs.isCatalogRegistered(parts.get(0))) {
      return catalogs.catalog(parts.get(0)) instanceof LanceCatalog ? parts : null;
    }
    if (!(catalogs.currentCatalog() instanceof LanceCatalog)) {
      return null;
    }
    List<String> whole = new ArrayList<>(List.of(catalogs.currentCatalog().name()));
    if (parts.size() == 1 && !parts.get(0).contains("/")) {
      whole.addAll(List.of(catalogs.currentNamespace()));
    }
    whole.addAll(parts);
    return whole;
  }

  /** The plan of {@code lance_changes('table', from, to)}: the same as for Spark's CHANGES clause. */
  public static LogicalPlan changes(List<Expression> arguments) {
    if (arguments.size() < 2 || arguments.size() > 3 || arguments.stream().anyMatch(each -> !each.foldable())) {
      throw LanceException.invalid(CHANGES_USAGE);
    }
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    ParserInterface parser = session.sessionState().sqlParser();
    List<String> values = new ArrayList<>();
    for (Expression argument : arguments) {
      values.add(String.valueOf(argument.eval(null)));
    }
    boolean isNamed = arguments.get(0).dataType() instanceof StringType && arguments.get(0).eval(null) != null;
    if (!isNamed || !values.stream().skip(1).allMatch(each -> each.matches("[0-9]{1,18}"))) {
      throw LanceException.invalid(CHANGES_USAGE + "; these were " + String.join(", ", values));
    }
    try {
      String table =
          LanceStatements.quoted(CollectionConverters.asJava(parser.parseMultipartIdentifier(values.get(0))));
      String end = values.size() == 3 ? " TO VERSION " + values.get(2) : "";
      return parser.parsePlan("SELECT * FROM " + table + " CHANGES FROM VERSION " + values.get(1) + end);
    } catch (ParseException error) {
      throw LanceException.sneaky(error);
    }
  }

  @Override
  public LogicalPlan parsePlan(String text) throws ParseException {
    return delegate.parsePlan(rewritten(text, null));
  }

  @Override
  public LogicalPlan parsePlanWithParameters(String text, ParameterContext parameters) throws ParseException {
    return delegate.parsePlanWithParameters(rewritten(text, parameters), parameters);
  }

  @Override
  public Expression parseExpression(String text) throws ParseException {
    return delegate.parseExpression(text);
  }

  @Override
  public TableIdentifier parseTableIdentifier(String text) throws ParseException {
    return delegate.parseTableIdentifier(text);
  }

  @Override
  public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
    return delegate.parseFunctionIdentifier(text);
  }

  @Override
  public Seq<String> parseMultipartIdentifier(String text) throws ParseException {
    return delegate.parseMultipartIdentifier(text);
  }

  @Override
  public TemporalIdentifier parseTemporalTableIdentifier(String text) throws ParseException {
    return delegate.parseTemporalTableIdentifier(text);
  }

  @Override
  public LogicalPlan parseQuery(String text) throws ParseException {
    return delegate.parseQuery(text);
  }

  @Override
  public StructType parseRoutineParam(String text) throws ParseException {
    return delegate.parseRoutineParam(text);
  }

  @Override
  public SqlStatementSplitResult splitStatements(String text) {
    return delegate.splitStatements(text);
  }

  @Override
  public StructType parseTableSchema(String text) throws ParseException {
    return delegate.parseTableSchema(text);
  }

  @Override
  public DataType parseDataType(String text) throws ParseException {
    return delegate.parseDataType(text);
  }
}
