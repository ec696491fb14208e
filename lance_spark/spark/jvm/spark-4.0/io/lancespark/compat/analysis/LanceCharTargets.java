package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import io.lancespark.table.WritableVersion;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Makes statements about tables with CHAR and VARCHAR columns plannable, which Spark 4.0 ends with an internal error: a
 * DELETE, whose table is hidden behind the projection that pads CHAR values, and a MERGE that only inserts, whose values
 * keep the types CHAR and VARCHAR where the plan has strings for the table's columns.
 */
public final class LanceCharTargets extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(
        Catalyst.replacing(
            node ->
                node instanceof DeleteFromTable delete
                    ? withTable(delete)
                    : node instanceof MergeIntoTable merge ? withStrings(merge) : null));
  }

  /** The DELETE from the table itself, with the padded values in its condition; null if its table is not hidden. */
  private static LogicalPlan withTable(DeleteFromTable delete) {
    LogicalPlan target = EliminateSubqueryAliases.apply(delete.table());
    if (!(target instanceof Project project && isLance(project.child()))) {
      return null;
    }
    Map<ExprId, Expression> padded = new HashMap<>();
    for (NamedExpression column : Catalyst.list(project.projectList())) {
      if (column instanceof Alias alias) {
        padded.put(alias.exprId(), alias.child());
      }
    }
    return delete.copy(project.child(), withValues(delete.condition(), padded));
  }

  private static Expression withValues(Expression condition, Map<ExprId, Expression> padded) {
    return (Expression)
        condition.transform(
            Catalyst.replacing(
                expression ->
                    expression instanceof AttributeReference column
                        ? padded.get(column.exprId())
                        : expression instanceof SubqueryExpression query ? withOuterValues(query, padded) : null));
  }

  /** The subquery with the padded values where it refers to columns of the table; null if it does not. */
  private static Expression withOuterValues(SubqueryExpression query, Map<ExprId, Expression> padded) {
    LogicalPlan plan =
        (LogicalPlan)
            query
                .plan()
                .transformAllExpressionsWithSubqueries(
                    Catalyst.replacing(
                        expression ->
                            expression instanceof OuterReference outer && padded.containsKey(outer.e().exprId())
                                ? outer(padded.get(outer.e().exprId()))
                                : null));
    return plan.fastEquals(query.plan()) ? null : (Expression) query.withNewPlan(plan);
  }

  private static Expression outer(Expression value) {
    return (Expression)
        value.transform(
            Catalyst.replacing(
                expression -> expression instanceof AttributeReference column ? new OuterReference(column) : null));
  }

  /** The MERGE with values that are strings, as the table's columns are in the plan; null if all of them are. */
  private static LogicalPlan withStrings(MergeIntoTable merge) {
    boolean isInsert = merge.matchedActions().isEmpty() && merge.notMatchedBySourceActions().isEmpty();
    if (!isInsert || !merge.aligned() || !isLance(EliminateSubqueryAliases.apply(merge.targetTable()))) {
      return null;
    }
    List<MergeAction> actions = new ArrayList<>();
    for (MergeAction action : Catalyst.list(merge.notMatchedActions())) {
      actions.add(action instanceof InsertAction insert ? withStrings(insert) : action);
    }
    return actions.equals(Catalyst.list(merge.notMatchedActions()))
        ? null
        : merge.copy(
            merge.targetTable(),
            merge.sourceTable(),
            merge.mergeCondition(),
            merge.matchedActions(),
            Catalyst.seq(actions),
            merge.notMatchedBySourceActions(),
            merge.withSchemaEvolution());
  }

  private static InsertAction withStrings(InsertAction insert) {
    List<Assignment> assignments = new ArrayList<>();
    for (Assignment assignment : Catalyst.list(insert.assignments())) {
      // The name has the type of the column in its metadata. Its child has checked the length, and is a string.
      boolean isNamed =
          assignment.value() instanceof Alias alias && CharVarcharUtils.getRawType(alias.metadata()).isDefined();
      assignments.add(
          isNamed ? assignment.copy(assignment.key(), ((Alias) assignment.value()).child()) : assignment);
    }
    return insert.copy(insert.condition(), Catalyst.seq(assignments));
  }

  private static boolean isLance(LogicalPlan node) {
    return node instanceof DataSourceV2Relation relation && relation.table() instanceof WritableVersion;
  }
}
