package io.lancespark.optimizer;

import io.lancespark.catalog.LanceTable;
import io.lancespark.functions.LanceArrayFunctions;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.runtime.AbstractPartialFunction;

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
        return table instanceof LanceTable ? changed(filter, LanceArrayConditions::call) : null;
      }
    });
  }

  private static Expression call(Expression expression) {
    ApplyFunctionExpression call = LanceArrayFunctions.call(expression);
    return call != null && isColumn(call.children().apply(0)) ? call : null;
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof Attribute
        || (expression instanceof GetStructField member && isColumn(member.child()));
  }

  /** A filter with some parts of its condition replaced; null if none is. */
  private static LogicalPlan changed(Filter filter, java.util.function.Function<Expression, Expression> replace) {
    Expression condition = (Expression) filter.condition().transformDown(
        new AbstractPartialFunction<Expression, Expression>() {
          @Override
          public boolean isDefinedAt(Expression expression) {
            return replace.apply(expression) != null;
          }

          @Override
          public Expression apply(Expression expression) {
            return replace.apply(expression);
          }
        });
    return condition.fastEquals(filter.condition()) ? null : new Filter(condition, filter.child());
  }

  /** Conditions that no scan has taken are Spark's own again, which it compiles. */
  public static final class Left extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return (LogicalPlan) plan.transformDown(new Cases<LogicalPlan>() {
        @Override
        protected LogicalPlan of(LogicalPlan node) {
          return node instanceof Filter filter ? changed(filter, Left::original) : null;
        }
      });
    }

    private static Expression original(Expression expression) {
      return expression instanceof ApplyFunctionExpression call ? LanceArrayFunctions.replaced(call) : null;
    }
  }
}
