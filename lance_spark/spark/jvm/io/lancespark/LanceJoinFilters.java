package io.lancespark;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.PartialFunction;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets a scan that has taken its filter whole choose the rows of the other side of a join.
 *
 * <p>Spark hands the join keys of one side to a scan of the other while the query runs (dynamic pruning), if the plan shows
 * a filter on the one side. A filter that a scan has taken whole is no longer in the plan. So this rule runs Spark's own
 * one again, with a mark where such filters were, and takes the marks away.
 */
final class LanceJoinFilters extends Rule<LogicalPlan> {
  /** A comparison, which Spark takes for a selective filter; nothing ever evaluates it. */
  private static final Expression MARK =
      new EqualTo(Literal$.MODULE$.apply("a filter"), Literal$.MODULE$.apply("of a Lance scan"));

  private LanceJoinFilters() {}

  /** Gives the rule to the active session, once. */
  static void addToSession() {
    ExperimentalMethods methods = SparkSession.active().experimental();
    synchronized (methods) {
      List<Rule<LogicalPlan>> rules = new ArrayList<>(CollectionConverters.asJava(methods.extraOptimizations()));
      if (rules.stream().noneMatch(LanceJoinFilters.class::isInstance)) {
        rules.add(new LanceJoinFilters());
        methods.extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
      }
    }
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    List<LanceScan> scans = new ArrayList<>();
    LogicalPlan marked =
        plan.transformUp(
            new Replacing(node -> scan(node) != null && scan(node).leavesOutRows(), node -> {
              scans.add(scan(node));
              return new Filter(MARK, node);
            }));
    // Spark runs its last rules until they change nothing.
    if (scans.stream().filter(LanceScan::isNewToJoins).toList().isEmpty()) {
      return plan;
    }
    LogicalPlan found = PartitionPruning$.MODULE$.apply(marked);
    found = found.transformUp(new Replacing(Join.class::isInstance, this::withBroadcast));
    for (LogicalPlan before = null; before == null || !before.fastEquals(found); ) {
      before = found;
      found = PushDownPredicates$.MODULE$.apply(before);
    }
    found = CleanupDynamicPruningFilters$.MODULE$.apply(found);
    return (LogicalPlan)
        found.transformDownWithSubqueries(
            new Replacing(node -> node instanceof Filter filter && isMarked(filter.condition()), node -> {
              Filter filter = (Filter) node;
              Expression rest = unmarked(filter.condition());
              return rest == null ? filter.child() : new Filter(rest, filter.child());
            }));
  }

  /**
   * A join without those new filters that Spark would drop, because the side that they come from is not broadcast. Spark
   * plans that whole side again for each of them before it sees that.
   */
  private LogicalPlan withBroadcast(LogicalPlan node) {
    Join join = (Join) node;
    BuildSide side = PartitionPruning$.MODULE$.getBroadcastHashJoinBuildSide(join, conf()).getOrElse(() -> null);
    LogicalPlan left = side == BuildRight$.MODULE$ ? join.left() : unfiltered(join.left());
    LogicalPlan right = side == BuildLeft$.MODULE$ ? join.right() : unfiltered(join.right());
    if (left == join.left() && right == join.right()) {
      return join;
    }
    return new Join(left, right, join.joinType(), join.condition(), join.hint());
  }

  private static LogicalPlan unfiltered(LogicalPlan side) {
    LogicalPlan rest = side;
    while (rest instanceof Filter filter
        && filter.condition() instanceof DynamicPruningSubquery found
        && found.onlyInBroadcast()) {
      rest = filter.child();
    }
    return rest;
  }

  private static LanceScan scan(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof LanceScan scan ? scan : null;
  }

  private static boolean isMarked(Expression condition) {
    return condition == MARK
        || MARK.equals(condition)
        || condition instanceof And both && (isMarked(both.left()) || isMarked(both.right()));
  }

  /** What is left of a condition; null is nothing. */
  private static Expression unmarked(Expression condition) {
    if (MARK.equals(condition)) {
      return null;
    }
    if (!(condition instanceof And both)) {
      return condition;
    }
    Expression left = unmarked(both.left());
    Expression right = unmarked(both.right());
    return left == null ? right : right == null ? left : new And(left, right);
  }

  private record Replacing(Predicate<LogicalPlan> which, UnaryOperator<LogicalPlan> change)
      implements PartialFunction<LogicalPlan, LogicalPlan> {
    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return which.test(node);
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      return change.apply(node);
    }
  }
}
