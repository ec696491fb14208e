package io.lancespark.sql;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.LanceCatalog;
import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StringType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The table functions that search a table. Their arguments are constants, positional ones before named ones; Python knows
 * which there are. The first one, {@code table}, names the table.
 */
public final class LanceTableFunctions {
  public static final List<String> NAMES = 
      List.of("vector_search", "vector_search_batch", "hybrid_search", "search", "lance_search");

  private LanceTableFunctions() {}

  /** The plan of a call of the function {@code name}. */
  public static LogicalPlan search(String name, List<Expression> arguments) {
    ObjectNode search = Json.object();
    search.put("function", name);
    ArrayNode positional = search.putArray("positional");
    ObjectNode named = search.putObject("named");
    String table = null;
    for (Expression argument : arguments) {
      boolean isNamed = argument instanceof NamedArgumentExpression;
      Expression value = isNamed ? ((NamedArgumentExpression) argument).value() : argument;
      String key = isNamed ? ((NamedArgumentExpression) argument).key().toLowerCase(Locale.ROOT) : null;
      if (!value.foldable()) {
        throw LanceException.invalid(name + " takes constants, not " + value.sql());
      }
      Object constant = value.eval(null);
      if (!isNamed && !named.isEmpty()) {
        throw LanceException.invalid(name + " has an argument without a name after one with a name: " + value.sql());
      }
      if (isNamed ? key.equals("table") : positional.isEmpty()) {
        table = constant != null && value.dataType() instanceof StringType ? constant.toString() : null;
      }
      String text = Json.constant(constant, value.dataType()).toString();
      if (!isNamed) {
        positional.add(text);
      } else if (named.has(key)) {
        throw LanceException.invalid(name + " has its argument " + key + " twice");
      } else {
        named.put(key, text);
      }
    }
    if (table == null) {
      throw LanceException.invalid(name + " takes the name of a table first, as in table => 'db.t'");
    }
    return relation(table, search);
  }

  private static LogicalPlan relation(String table, ObjectNode search) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    try {
      List<String> parts =
          CollectionConverters.asJava(session.sessionState().sqlParser().parseMultipartIdentifier(table));
      CatalogManager catalogs = session.sessionState().catalogManager();
      boolean namesCatalog = parts.size() > 1 && catalogs.isCatalogRegistered(parts.get(0));
      CatalogPlugin catalog = namesCatalog ? catalogs.catalog(parts.get(0)) : catalogs.currentCatalog();
      List<String> rest = namesCatalog ? parts.subList(1, parts.size()) : parts;
      if (!(catalog instanceof LanceCatalog lance)) {
        throw LanceException.invalid(
            table + " is in the catalog " + catalog.name() + ", which is no Lance catalog; name one, as in 'lance.db.t'");
      }
      String last = rest.get(rest.size() - 1);
      boolean isRelative = rest.size() == 1 && !namesCatalog && !last.contains("/");
      String[] namespace =
          isRelative ? catalogs.currentNamespace() : rest.subList(0, rest.size() - 1).toArray(new String[0]);
      Identifier identifier = Identifier.of(namespace, last);
      Table found = lance.search(identifier, search);
      // Without the name of the table, for which Spark would take the rows once they are cached.
      return DataSourceV2Relation.create(found, Option.empty(), Option.empty());
    } catch (ParseException | NoSuchTableException error) {
      throw LanceException.sneaky(error);
    }
  }
}
