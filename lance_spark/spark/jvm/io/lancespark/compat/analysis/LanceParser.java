package io.lancespark.compat.analysis;

import io.lancespark.catalog.SearchCatalog;
import io.lancespark.compat.Catalyst;
import io.lancespark.compat.SparkParser;
import io.lancespark.python.LanceException;
import io.lancespark.sql.LanceStatements;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Rewrites the Lance statements that Spark's grammar lacks to procedure calls, then delegates to Spark's parser.
 *
 * <p>Any other text is passed on unchanged.
 */
public final class LanceParser extends SparkParser {
  private final SparkSession session;

  public LanceParser(org.apache.spark.sql.SparkSession session, ParserInterface delegate) {
    super(delegate);
    this.session = (SparkSession) session;
  }

  @Override
  protected String rewritten(String text, Function<String, Expression> parameters) {
    String call =
        LanceStatements.rewrite(text, parts -> resolve(session, parts), value -> named(value, parameters));
    return call == null ? text : call;
  }

  /** The name in IDENTIFIER, which is a string or the marker of a named parameter; null for anything else. */
  private List<String> named(String value, Function<String, Expression> parameters) {
    try {
      Expression expression = null;
      if (value.startsWith(":")) {
        expression = parameters.apply(value.substring(1));
      } else if (!value.equals("?")) {
        expression = delegate.parseExpression(value);
      }
      boolean isText = expression instanceof Literal literal && literal.value() instanceof UTF8String;
      return isText
          ? Catalyst.list(delegate.parseMultipartIdentifier(((Literal) expression).value().toString()))
          : null;
    } catch (ParseException error) {
      throw LanceException.sneaky(error);
    }
  }

  /** The qualified name of a Lance table, catalog first; null of others, and in catalogs that are not ours. */
  static List<String> resolve(SparkSession session, List<String> parts) {
    CatalogManager catalogs = session.sessionState().catalogManager();
    boolean namesCatalog = parts.size() > 1 && catalogs.isCatalogRegistered(parts.get(0));
    CatalogPlugin catalog = namesCatalog ? catalogs.catalog(parts.get(0)) : catalogs.currentCatalog();
    if (!(catalog instanceof SearchCatalog lance)) {
      return null;
    }
    List<String> whole = new ArrayList<>();
    if (!namesCatalog) {
      whole.add(catalog.name());
      if (parts.size() == 1 && !parts.get(0).contains("/")) {
        whole.addAll(List.of(catalogs.currentNamespace()));
      }
    }
    whole.addAll(parts);
    int last = whole.size() - 1;
    Identifier identifier = Identifier.of(whole.subList(1, last).toArray(new String[0]), whole.get(last));
    return lance.isLance(identifier) ? whole : null;
  }
}
