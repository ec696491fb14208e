package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.catalyst.trees.TreePatternBits;
import org.apache.spark.sql.internal.SQLConf$;

/**
 * Makes {@code f(x) = TRUE} of functions of a catalog that are terms of AND, OR or NOT inside of other expressions.
 *
 * <p>Spark's translation of such expressions for sources asserts that the terms are predicates, and functions are none.
 * The terms of a whole condition it translates in another way, so functions stay there what they are. Spark 4.0 hands no
 * function to sources as a condition, so there these are comparisons too.
 */
public final class LanceFunctionTerms extends Rule<LogicalPlan> {
  private static final TreePattern$ PATTERNS = TreePattern$.MODULE$;

  /** By the setting that came with it. */
  private static final boolean HANDS_FUNCTIONS =
      SQLConf$.MODULE$.containsConfigKey("spark.sql.dataSource.alwaysCreateV2Predicate");

  /** Whether a function is a term in a node of a plan. Most plans have none, and a look costs less than a rewrite. */
  private static boolean hasFunctions(LogicalPlan node) {
    boolean isCondition = !HANDS_FUNCTIONS && node.expressions().exists(LanceFunctionTerms::isFunction);
    return isCondition || hasTerms(node) && node.expressions().exists(LanceFunctionTerms::isOverFunction);
  }

  private static boolean isOverFunction(Expression expression) {
    return hasTerms(expression)
        && (inside(expression) != null || expression.children().exists(LanceFunctionTerms::isOverFunction));
  }

  /** Whether there is AND, OR or NOT in it, of which Spark keeps a bit. */
  private static boolean hasTerms(TreePatternBits tree) {
    return tree.containsPattern(PATTERNS.AND())
        || tree.containsPattern(PATTERNS.OR())
        || tree.containsPattern(PATTERNS.NOT());
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.exists(LanceFunctionTerms::hasFunctions)
        ? (LogicalPlan) plan.transformDown(Catalyst.replacing(LanceFunctionTerms::withComparisons))
        : plan;
  }

  /** A node with comparisons in place of functions; null if it has none. */
  private static LogicalPlan withComparisons(LogicalPlan node) {
    // What rows are grouped by is no condition, and is in what they are aggregated to again.
    boolean isCondition = !(node instanceof Aggregate);
    LogicalPlan changed =
        (LogicalPlan) node.mapExpressions(item -> isCondition ? condition((Expression) item) : replaced((Expression) item));
    return changed.fastEquals(node) ? null : changed;
  }

  private static Expression condition(Expression expression) {
    if (expression instanceof And and) {
      return new And(condition(and.left()), condition(and.right()));
    }
    if (expression instanceof Or or) {
      return new Or(condition(or.left()), condition(or.right()));
    }
    return expression instanceof Not not
        ? new Not(condition(not.child()))
        : HANDS_FUNCTIONS ? replaced(expression) : predicate(replaced(expression));
  }

  /** AND, OR or NOT with comparisons in the place of functions; null for other expressions, and without a function. */
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

  private static Expression replaced(Expression whole) {
    return (Expression) whole.transformDown(Catalyst.replacing(LanceFunctionTerms::inside));
  }
}
