package io.lancespark.compat.analysis;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.catalog.LanceTable;
import io.lancespark.compat.Catalyst;
import io.lancespark.functions.LanceTextFunctions;
import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayStructFields;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SetOperation;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;
import scala.runtime.BoxedUnit;

/**
 * Tells each text search which table and columns it was written for.
 *
 * <p>Spark's optimizer takes a condition on a column for one on every column that is equal to it. That is wrong for
 * text searches, because each column has its own analysis. Scans recognize such conditions by what is noted here.
 */
public final class LanceTextSearches extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    Map<Long, CTERelationDef> definitions = new HashMap<>();
    plan.foreach(
        node -> {
          if (node instanceof CTERelationDef definition) {
            definitions.put(definition.id(), definition);
          }
          return BoxedUnit.UNIT;
        });
    return plan.resolveOperatorsUp(
        Catalyst.replacing(
            node ->
                Catalyst.list(node.expressions()).stream().anyMatch(LanceTextSearches::hasUnbound)
                    ? bound(node, definitions)
                    : null));
  }

  private static boolean hasUnbound(Expression expression) {
    return isUnbound(expression) || Catalyst.list(expression.children()).stream().anyMatch(LanceTextSearches::hasUnbound);
  }

  private static boolean isUnbound(Expression expression) {
    return expression instanceof ApplyFunctionExpression call && LanceTextFunctions.isUnbound(call.function());
  }

  private static LogicalPlan bound(LogicalPlan node, Map<Long, CTERelationDef> definitions) {
    return (LogicalPlan)
        node.transformExpressions(
            Catalyst.replacing(
                expression ->
                    isUnbound(expression) ? bound((ApplyFunctionExpression) expression, node, definitions) : null));
  }

  private static Expression bound(
      ApplyFunctionExpression call, LogicalPlan node, Map<Long, CTERelationDef> definitions) {
    ObjectNode target = Json.object();
    ArrayNode columns = target.putArray("columns");
    ArrayNode below = target.putArray("below");
    List<Expression> arguments = new ArrayList<>();
    for (Expression argument : Catalyst.list(call.children())) {
      List<Attribute> read = List.copyOf(Catalyst.list(argument.references().toSeq()));
      if (read.isEmpty()) {
        arguments.add(argument);
        continue;
      }
      // Spark hands a list to the scan, but no members of its structs.
      Expression column = argument;
      LinkedList<String> names = new LinkedList<>();
      while (column instanceof GetArrayStructFields member) {
        names.addFirst(member.field().name());
        column = member.child();
      }
      // Spark moves the conditions of a join that are about one side to that side, where it may.
      boolean isMoved = node instanceof Filter || node instanceof Join;
      Place place = isMoved && isColumn(column) ? place(node, read.get(0).exprId(), definitions) : null;
      if (place == null || (target.has("uri") && !place.describes(target))) {
        throw LanceException.invalid(
            call.function().name()
                + " takes constants and columns of one Lance table, in WHERE or in ON of a join; in DELETE, UPDATE"
                + " and MERGE choose the rows by their keys, as in WHERE id IN (SELECT id FROM t WHERE "
                + call.function().name()
                + "(...))");
      }
      place.describe(target);
      columns.add(place.column());
      names.forEach(below.addArray()::add);
      arguments.add(column);
    }
    arguments.add(Literal$.MODULE$.apply(target.toString()));
    List<DataType> types = arguments.stream().map(Expression::dataType).toList();
    return new ApplyFunctionExpression(LanceTextFunctions.bound(call.function(), types), Catalyst.seq(arguments));
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof Attribute
        || (expression instanceof GetStructField member && isColumn(member.child()));
  }

  /** The table and the column in it that an attribute of a node stands for; null if it is not just a column. */
  private static Place place(LogicalPlan node, ExprId id, Map<Long, CTERelationDef> definitions) {
    if (node instanceof DataSourceV2Relation relation) {
      NamedExpression column = attribute(Catalyst.list(relation.output()), id);
      return column != null && relation.table() instanceof LanceTable table ? new Place(table, column.name()) : null;
    } else if (node instanceof Project || node instanceof Aggregate) {
      Seq<NamedExpression> expressions =
          node instanceof Project project ? project.projectList() : ((Aggregate) node).aggregateExpressions();
      NamedExpression named = attribute(Catalyst.list(expressions), id);
      Object value = named instanceof Alias alias ? withoutCast(alias.child()) : named;
      LogicalPlan child = Catalyst.list(node.children()).get(0);
      return value instanceof Attribute source ? place(child, source.exprId(), definitions) : null;
    } else if (node instanceof CTERelationRef reference) {
      CTERelationDef definition = definitions.get(reference.cteId());
      int number = Catalyst.list(reference.output()).indexOf(attribute(Catalyst.list(reference.output()), id));
      return definition == null || number < 0
          ? null
          : place(definition.child(), Catalyst.list(definition.output()).get(number).exprId(), definitions);
    } else if (node instanceof Union || node instanceof SetOperation) {
      return null; // A condition above reaches several tables.
    }
    for (LogicalPlan child : Catalyst.list(node.children())) {
      if (attribute(Catalyst.list(child.output()), id) != null) {
        return place(child, id, definitions);
      }
    }
    return null;
  }

  /** The columns of a view are cast to the types that they had when it was made. */
  private static Expression withoutCast(Expression expression) {
    return expression instanceof Cast cast && cast.dataType().equals(cast.child().dataType())
        ? cast.child()
        : expression;
  }

  private static <T extends NamedExpression> T attribute(List<T> expressions, ExprId id) {
    return expressions.stream().filter(expression -> expression.exprId().equals(id)).findFirst().orElse(null);
  }

  private record Place(LanceTable table, String column) {
    void describe(ObjectNode target) {
      target.set("uri", table.handle().path("uri"));
      target.set("branch", table.handle().path("branch").isTextual() ? table.handle().get("branch") : null);
    }

    boolean describes(ObjectNode target) {
      ObjectNode own = Json.object();
      describe(own);
      return own.get("uri").equals(target.get("uri")) && Objects.equals(own.get("branch"), target.get("branch"));
    }
  }
}
