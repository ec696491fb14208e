package io.lancespark.compat.analysis;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.catalog.LanceTable;
import io.lancespark.compat.Catalyst;
import io.lancespark.functions.LanceDistance;
import io.lancespark.python.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.NearestByDistance$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.NearestByJoin;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * {@code queries JOIN table APPROX NEAREST k BY DISTANCE lance_distance(...)} becomes a search of the table for each row
 * of the queries, if Python takes it. Spark compares all pairs of rows.
 *
 * <p>The queries are any relation. The table may have conditions below the join; they choose the rows that are searched.
 */
public final class LanceNearestJoins extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(
        Catalyst.replacing(node -> node instanceof NearestByJoin join && join.resolved() ? search(join) : null));
  }

  private static LogicalPlan search(NearestByJoin join) {
    boolean outer = join.joinType() == LeftOuter$.MODULE$;
    boolean isNearest =
        join.approx()
            && join.direction() == NearestByDistance$.MODULE$
            && (outer || join.joinType() == Inner$.MODULE$);
    Searched searched = isNearest ? Searched.of(join.right()) : null;
    if (searched == null
        || !(join.rankingExpression() instanceof ApplyFunctionExpression call)
        || !call.function().name().equals(LanceDistance.NAME)) {
      return null;
    }
    List<Expression> arguments = Catalyst.list(call.children());
    String metric = metric(arguments);
    int place = searched.column(arguments.get(1)) != null ? 1 : 0;
    String vector = searched.column(arguments.get(place));
    Expression query = arguments.get(1 - place);
    boolean isOfQueries =
        query.deterministic() && !query.foldable() && query.references().subsetOf(join.left().outputSet());
    if (metric == null || vector == null || !isOfQueries) {
      return null;
    }
    List<Attribute> attributes = Catalyst.list(join.output()).subList(Catalyst.list(join.left().output()).size(), join.output().size());
    StructType columns = searched.columns(attributes);
    if (columns == null) {
      return null;
    }
    ObjectNode request = searched.request();
    request.put("k", join.numResults());
    request.put("metric", metric);
    request.put("vector_column", vector);
    return LanceNearestSearch.of(request, columns, attributes, query, join.left(), outer);
  }

  /** The metric of a distance; null if it is no constant. */
  private static String metric(List<Expression> arguments) {
    if (arguments.size() < 3) {
      return "l2";
    }
    Object value = arguments.get(2).foldable() ? arguments.get(2).eval(null) : null;
    return value == null ? null : value.toString();
  }

  /**
   * A Lance table with conditions, of which some columns are taken.
   *
   * @param names of the columns in the table, by the ids that they have in the plan
   */
  private record Searched(DataSourceV2Relation relation, Map<ExprId, Attribute> names, List<Expression> conditions) {
    /** The table that a side of a join is; null if it is something else. */
    static Searched of(LogicalPlan side) {
      if (side instanceof SubqueryAlias alias) {
        return of(alias.child());
      } else if (side instanceof Filter filter) {
        Searched below = of(filter.child());
        return below == null ? null : below.where(filter.condition());
      } else if (side instanceof Project project) {
        Searched below = of(project.child());
        return below == null ? null : below.selected(Catalyst.list(project.projectList()));
      }
      if (!(side instanceof DataSourceV2Relation relation)
          || !(relation.table() instanceof LanceTable table)
          || !relation.options().isEmpty()) {
        return null;
      }
      Set<String> columns = new HashSet<>(Arrays.stream(table.columns()).map(Column::name).toList());
      Map<ExprId, Attribute> names = new HashMap<>();
      for (Attribute column : Catalyst.list(relation.output())) {
        if (columns.contains(column.name())) {
          names.put(column.exprId(), column);
        }
      }
      return new Searched(relation, names, List.of());
    }

    private Searched where(Expression condition) {
      List<Expression> all = new ArrayList<>(conditions);
      all.add(inTable(condition));
      boolean isKnown = Catalyst.list(condition.references().toSeq()).stream().allMatch(item -> names.containsKey(item.exprId()));
      return isKnown ? new Searched(relation, names, all) : null;
    }

    private Searched selected(List<NamedExpression> expressions) {
      Map<ExprId, Attribute> translated = new HashMap<>();
      for (NamedExpression expression : expressions) {
        Object value = expression instanceof Alias alias ? alias.child() : expression;
        Attribute column = value instanceof Attribute attribute ? names.get(attribute.exprId()) : null;
        if (column == null) {
          return null;
        }
        translated.put(expression.exprId(), column);
      }
      return new Searched(relation, translated, conditions);
    }

    /** A condition on the columns of the table, its constants computed. */
    private Expression inTable(Expression condition) {
      return transformed(
          condition,
          item -> {
            if (item instanceof Attribute attribute && names.containsKey(attribute.exprId())) {
              return names.get(attribute.exprId());
            }
            boolean isConstant = item.foldable() && !(item instanceof Literal);
            return isConstant ? new Literal(item.eval(null), item.dataType()) : item;
          });
    }

    /** The name in the table of a column in the plan; null for other expressions. */
    String column(Expression expression) {
      Attribute column = expression instanceof Attribute attribute ? names.get(attribute.exprId()) : null;
      return column == null ? null : column.name();
    }

    /** The columns in the table; null if one is taken twice. */
    StructType columns(List<Attribute> attributes) {
      Set<String> seen = new HashSet<>();
      StructType columns = new StructType();
      for (Attribute attribute : attributes) {
        Attribute column = names.get(attribute.exprId());
        if (column == null || !seen.add(column.name())) {
          return null;
        }
        columns = columns.add(new StructField(column.name(), column.dataType(), column.nullable(), column.metadata()));
      }
      return columns;
    }

    ObjectNode request() {
      ObjectNode request = Json.object();
      request.set("handle", ((LanceTable) relation.table()).handle());
      ArrayNode predicates = request.putArray("predicates");
      for (Expression condition : conditions) {
        Option<Predicate> translated = DataSourceV2Strategy$.MODULE$.translateFilterV2(condition);
        predicates.add(translated.isDefined() ? Json.expression(translated.get()) : null);
      }
      return request;
    }
  }

  private static Expression transformed(Expression expression, UnaryOperator<Expression> change) {
    return change.apply((Expression) expression.mapChildren(child -> transformed((Expression) child, change)));
  }
}
