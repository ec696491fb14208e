package io.lancespark.compat.analysis;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Relations;
import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.StringType;

/**
 * The table functions that search a table. Their arguments are constants, positional ones before named ones; Python knows
 * which there are. The first one, {@code table}, names the table.
 */
public final class LanceTableFunctions {
  public static final List<String> NAMES =
      List.of("vector_search", "vector_search_batch", "hybrid_search", "search", "lance_search");

  private static final String CHANGES_USAGE =
      "lance_changes takes the name of a table, a first and, if wanted, a last version, as in lance_changes('db.t', 1, 3)";

  private LanceTableFunctions() {}

  /** The plan of {@code lance_changes('table', from, to)}. */
  public static LogicalPlan changes(List<Expression> arguments) {
    if (arguments.size() < 2 || arguments.size() > 3 || arguments.stream().anyMatch(each -> !each.foldable())) {
      throw LanceException.invalid(CHANGES_USAGE);
    }
    List<String> values = new ArrayList<>();
    for (Expression argument : arguments) {
      values.add(String.valueOf(argument.eval(null)));
    }
    boolean isNamed = arguments.get(0).dataType() instanceof StringType && arguments.get(0).eval(null) != null;
    if (!isNamed || !values.stream().skip(1).allMatch(each -> each.matches("[0-9]{1,18}"))) {
      throw LanceException.invalid(CHANGES_USAGE + "; these were " + String.join(", ", values));
    }
    try {
      return LanceChanges.between(values.get(0), values.get(1), values.size() == 3 ? values.get(2) : null);
    } catch (ParseException | NoSuchTableException error) {
      throw LanceException.sneaky(error);
    }
  }

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
    try {
      NamedTable named = NamedTable.of(table);
      return Relations.unnamed(named.catalog().search(named.identifier(), search));
    } catch (ParseException | NoSuchTableException error) {
      throw LanceException.sneaky(error);
    }
  }
}
