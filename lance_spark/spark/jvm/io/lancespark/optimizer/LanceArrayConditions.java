package io.lancespark.optimizer;

import io.lancespark.catalog.LanceTable;
import io.lancespark.functions.LanceArrayFunctions;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.runtime.AbstractPartialFunction;

/**
 * Hands {@code array_contains} and {@code arrays_overlap} of a column and constants to scans, which have indexes of
 * list items. Spark has no form of them for sources, so above a table they become functions of the connector. The other
 * functions of the connector may be anywhere in a condition, and are kept from what Spark fails on.
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
    return call != null && isColumn(call.children().apply(0)) ? call : replaced(condition, LanceArrayConditions::inside);
  }

  /**
   * AND, OR or NOT inside of another expression, with comparisons in the place of functions of a catalog: Spark fails
   * where the terms of such a one are not predicates. Null if it has no function.
   */
  private static Expression inside(Expression expression) {
    if (expression instanceof And and && (isFunction(and.left()) || isFunction(and.right()))) {
      return new And(predicate(and.left()), predicate(and.right()));
    }
    if (expression instanceof Or or && (isFunction(or.left()) || isFunction(or.right()))) {
      return new Or(predicate(or.left()), predicate(or.right()));
    }
    return expression instanceof Not not && isFunction(not.child()) ? new Not(predicate(not.child())) : null;
  }

  private static boolean isFunction(Expression expression) {
    return expression instanceof ApplyFunctionExpression;
  }

  private static Expression predicate(Expression expression) {
    return isFunction(expression) ? new EqualTo(expression, Literal.TrueLiteral()) : expression;
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof Attribute
        || (expression instanceof GetStructField member && isColumn(member.child()));
  }

  /** A filter with another condition; null if it is the same. */
  private static LogicalPlan with(Filter filter, Expression condition) {
    return condition.fastEquals(filter.condition()) ? null : new Filter(condition, filter.child());
  }

  /** An expression with others in the place of those of its parts for which {@code replace} does not return null. */
  private static Expression replaced(Expression condition, UnaryOperator<Expression> replace) {
    return (Expression) condition.transformDown(new AbstractPartialFunction<Expression, Expression>() {
      @Override
      public boolean isDefinedAt(Expression expression) {
        return replace.apply(expression) != null;
      }

      @Override
      public Expression apply(Expression expression) {
        return replace.apply(expression);
      }
    });
  }

  /** Conditions that no scan has taken are Spark's own again, which it compiles. */
  public static final class Left extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return (LogicalPlan) plan.transformDown(new Cases<LogicalPlan>() {
        @Override
        protected LogicalPlan of(LogicalPlan node) {
          return node instanceof Filter filter ? with(filter, replaced(filter.condition(), Left::original)) : null;
        }
      });
    }

    private static Expression original(Expression expression) {
      return expression instanceof ApplyFunctionExpression call ? LanceArrayFunctions.replaced(call) : null;
    }
  }
}
