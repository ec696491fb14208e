package io.lancespark.optimizer;

import io.lancespark.catalog.LanceTable;
import io.lancespark.functions.LanceArrayFunctions;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Hands {@code array_contains} and {@code arrays_overlap} of a column and constants to scans, which have indexes of
 * list items. Spark has no form of them for sources, so above a table they become functions of the connector.
 */
public final class LanceArrayConditions extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformDown(new Cases<LogicalPlan>() {
      @Override
      protected LogicalPlan of(LogicalPlan node) {
        if (!(node instanceof Filter filter) || !(filter.child() instanceof DataSourceV2Relation relation)) {
          return null;
        }
        Table table = relation.table() instanceof RowLevelOperationTable changed ? changed.table() : relation.table();
        return table instanceof LanceTable ? with(filter, handed(filter.condition())) : null;
      }
    });
  }

  /** Only terms of AND, OR and NOT: scans take nothing else. */
  private static Expression handed(Expression condition) {
    if (condition instanceof And and) {
      return new And(handed(and.left()), handed(and.right()));
    }
    if (condition instanceof Or or) {
      return new Or(handed(or.left()), handed(or.right()));
    }
    if (condition instanceof Not not) {
      return new Not(handed(not.child()));
    }
    ApplyFunctionExpression call = LanceArrayFunctions.call(condition);
    return call != null && isColumn(call.children().apply(0)) ? call : condition;
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof Attribute
        || (expression instanceof GetStructField member && isColumn(member.child()));
  }

  /** A filter with another condition; null if it is the same. */
  private static LogicalPlan with(Filter filter, Expression condition) {
    return condition.fastEquals(filter.condition()) ? null : new Filter(condition, filter.child());
  }

  /** Conditions that no scan has taken are Spark's own again, which it compiles. */
  public static final class Left extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return (LogicalPlan) plan.transformDown(new Cases<LogicalPlan>() {
        @Override
        protected LogicalPlan of(LogicalPlan node) {
          return node instanceof Filter filter
              ? with(filter, LanceFunctionTerms.replaced(filter.condition(), Left::original))
              : null;
        }
      });
    }

    private static Expression original(Expression expression) {
      return expression instanceof ApplyFunctionExpression call ? LanceArrayFunctions.replaced(call) : null;
    }
  }
}
