package io.lancespark.sql;

import io.lancespark.catalog.LanceProcedure;
import io.lancespark.python.LanceException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import scala.jdk.javaapi.CollectionConverters;

/** The table function {@code search}: the rows of the procedure of this name. */
public final class LanceSearch {
  private static final String USAGE =
      "search takes constants: search('db.t', 'words', 10), or by name table, query, search_columns, columns, limit,"
          + " offset, filter and with_row_id";
  private static final List<String> POSITIONS = List.of("table", "query", "limit");

  private LanceSearch() {}

  /** The plan of {@code search(...)}. */
  public static LogicalPlan plan(List<Expression> arguments) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    List<String> given = new ArrayList<>();
    String table = null;
    for (int index = 0; index < arguments.size(); index++) {
      Expression argument = arguments.get(index);
      boolean isNamed = argument instanceof NamedArgumentExpression;
      if (!isNamed && index >= POSITIONS.size()) {
        throw new IllegalArgumentException(USAGE);
      }
      String name = isNamed ? ((NamedArgumentExpression) argument).key().toLowerCase(Locale.ROOT) : POSITIONS.get(index);
      Expression value = isNamed ? ((NamedArgumentExpression) argument).value() : argument;
      if (!value.foldable()) {
        throw new IllegalArgumentException(USAGE);
      }
      if (name.equals("table")) {
        table = String.valueOf(value.eval(null));
      } else {
        given.add(LanceStatements.quoted(List.of(name)) + " => " + text(value));
      }
    }
    if (table == null) {
      throw new IllegalArgumentException(USAGE);
    }
    List<String> name = resolved(session, table);
    given.add(0, "`table` => " + LanceStatements.literal(LanceStatements.quoted(name)));
    String procedure = LanceStatements.quoted(List.of(name.get(0), LanceProcedure.NAMESPACE, "search"));
    String call = "CALL " + procedure + "(" + String.join(", ", given) + ")";
    try {
      return session.sql(call).queryExecution().commandExecuted();
    } catch (Exception error) {
      // Spark adds the place of the function to an AnalysisException, in a copy without the message of a Lance error.
      String condition = error instanceof AnalysisException analysis ? analysis.getCondition() : null;
      if (condition != null && condition.startsWith("LANCE_")) {
        throw new IllegalArgumentException(error.getMessage());
      }
      throw LanceException.sneaky(error);
    }
  }

  private static List<String> resolved(SparkSession session, String table) {
    LanceParser parser = new LanceParser(session, session.sessionState().sqlParser());
    try {
      List<String> name = parser.resolve(CollectionConverters.asJava(parser.parseMultipartIdentifier(table)));
      if (name == null) {
        throw new IllegalArgumentException("search cannot find " + table + ": it is not a table of a Lance catalog");
      }
      return name;
    } catch (ParseException error) {
      throw LanceException.sneaky(error);
    }
  }

  private static String text(Expression value) {
    Object found = value.eval(null);
    if (found == null) {
      return "NULL";
    }
    if (value.dataType() instanceof ArrayType type) {
      ArrayData items = (ArrayData) found;
      List<String> texts = new ArrayList<>();
      for (int index = 0; index < items.numElements(); index++) {
        texts.add(items.isNullAt(index) ? "NULL" : constant(items.get(index, type.elementType())));
      }
      return "array(" + String.join(", ", texts) + ")";
    }
    return constant(found);
  }

  private static String constant(Object value) {
    boolean isPlain = value instanceof Number || value instanceof Boolean;
    return isPlain ? value.toString() : LanceStatements.literal(value.toString());
  }
}
