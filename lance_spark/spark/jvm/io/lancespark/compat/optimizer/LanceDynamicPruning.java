package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.PlanNodes;
import io.lancespark.read.LanceScan;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.Option;

/**
 * Enables dynamic pruning for joins whose build side is a Lance scan with fully pushed filters.
 *
 * <p>At run time Spark passes the join keys of a broadcast side to the scan of the other side (dynamic pruning), but
 * only if the plan has a selective filter on the broadcast side. A fully pushed filter is no longer in the plan. So
 * this rule puts a marker filter above such scans, runs Spark's own rule again, and removes the markers.
 *
 * <p>The added work is bounded. Sides that are dynamically pruned themselves do not provide keys, so key subqueries
 * are never nested, and all key subqueries of a plan have at most {@link #MOST_NODES} nodes in total. Spark plans
 * each of them separately, in addition to the joins.
 */
public final class LanceDynamicPruning extends Rule<LogicalPlan> {
  /** A comparison, which Spark counts as a selective filter. Always true: a leftover marker changes no rows. */
  private static final Expression MARK =
      new EqualTo(Literal$.MODULE$.apply("lance join mark"), Literal$.MODULE$.apply("lance join mark"));

  /** Maximum number of plan nodes in all key subqueries of one plan. */
  private static final int MOST_NODES = 1_000;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    // Spark runs this batch of rules until a fixed point.
    if (!hasNewScans(plan) || !plan.exists(Join.class::isInstance) || !Settings.isEnabled(Settings.DYNAMIC_PRUNING)) {
      return plan;
    }
    LogicalPlan marked =
        plan.transformUp(
            Catalyst.replacing(node -> scan(node) != null && scan(node).isSelective() ? new Filter(MARK, node) : null));
    return unmarked(bounded(withKeys(marked)));
  }

  private static boolean hasNewScans(LogicalPlan plan) {
    List<LanceScan> found = new ArrayList<>();
    plan.foreach(node -> {
      if (scan(node) != null && scan(node).markSeen()) {
        found.add(scan(node));
      }
      return null;
    });
    return !found.isEmpty();
  }

  /** Adds pruning filters, with keys of marked sides, to the scans of the other sides. */
  private LogicalPlan withKeys(LogicalPlan marked) {
    LogicalPlan turned = marked.transformUp(Catalyst.replacing(node -> node instanceof Join join ? withBroadcastAtRight(join) : null));
    LogicalPlan found = PartitionPruning$.MODULE$.apply(turned);
    found =
        (LogicalPlan)
            found.transformUpWithSubqueries(Catalyst.replacing(node -> isTurned(node) ? turnedBack(node) : null));
    found = found.transformUp(Catalyst.replacing(node -> node instanceof Join join ? withBroadcast(join) : null));
    found = CleanupDynamicPruningFilters$.MODULE$.apply(pushedDown(found));
    return found.transformUp(Catalyst.replacing(node -> node instanceof Filter filter ? withoutRepetition(filter) : null));
  }

  private static LogicalPlan pushedDown(LogicalPlan plan) {
    LogicalPlan found = plan;
    for (LogicalPlan before = null; before == null || !before.fastEquals(found); ) {
      before = found;
      found = PushDownPredicates$.MODULE$.apply(before);
    }
    return found;
  }

  /** Swaps the sides if the left one is broadcast: Spark's rule prunes the left side only, if it can. */
  private LogicalPlan withBroadcastAtRight(Join join) {
    boolean turns =
        join.joinType() == Inner$.MODULE$
            && join.condition().isDefined()
            && PlanNodes.broadcastSide(join) == BuildLeft$.MODULE$;
    return turns ? turned(join, new And(MARK, join.condition().get())) : join;
  }

  private static boolean isTurned(LogicalPlan node) {
    return node instanceof Join join && join.condition().isDefined() && terms(join.condition().get()).contains(MARK);
  }

  private static LogicalPlan turnedBack(LogicalPlan node) {
    Join join = (Join) node;
    return turned(join, ((And) join.condition().get()).right());
  }

  private static Join turned(Join join, Expression condition) {
    JoinHint hint = new JoinHint(join.hint().rightHint(), join.hint().leftHint());
    return new Join(join.right(), join.left(), join.joinType(), Option.apply(condition), hint);
  }

  /**
   * Removes new pruning filters whose key side is not broadcast. Spark would drop them too, but only after planning
   * that side again for each of them.
   */
  private LogicalPlan withBroadcast(Join join) {
    BuildSide side = PlanNodes.broadcastSide(join);
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

  /** Removes duplicate pruning filters: Spark's rule has already processed the same joins. */
  private static LogicalPlan withoutRepetition(Filter filter) {
    List<DynamicPruningSubquery> kept = new ArrayList<>();
    for (Expression term : terms(filter.condition())) {
      if (term instanceof DynamicPruningSubquery found && kept.stream().noneMatch(other -> hasSameKeys(other, found))) {
        kept.add(found);
      }
    }
    return with(filter, term -> !(term instanceof DynamicPruningSubquery) || kept.contains(term));
  }

  private static boolean hasSameKeys(DynamicPruningSubquery one, DynamicPruningSubquery other) {
    return one.pruningKey().semanticEquals(other.pruningKey())
        && one.buildKeys().equals(other.buildKeys())
        && one.broadcastKeyIndices().equals(other.broadcastKeyIndices());
  }

  /**
   * Removes pruning filters whose key subquery is itself dynamically pruned, and those beyond {@link #MOST_NODES}. A
   * broadcast with pruned scans no longer equals the plan that the filter refers to, so Spark would drop the filter,
   * but only after planning its subquery and all nested ones.
   */
  private static LogicalPlan bounded(LogicalPlan plan) {
    Set<Expression> kept = new HashSet<>();
    int nodes = 0;
    for (DynamicPruningSubquery filter : filters(plan)) {
      int more = size(filter.buildQuery());
      if (filters(filter.buildQuery()).isEmpty() && nodes + more <= MOST_NODES) {
        kept.add(filter);
        nodes += more;
      }
    }
    return (LogicalPlan)
        plan.transformUp(
            Catalyst.replacing(
                node ->
                    node instanceof Filter filter && !kept.containsAll(filtersOf(filter))
                        ? with(filter, term -> !(term instanceof DynamicPruningSubquery) || kept.contains(term))
                        : null));
  }

  /** The plan without markers, in subqueries too. */
  static LogicalPlan unmarked(LogicalPlan plan) {
    LogicalPlan found =
        (LogicalPlan)
            plan.transformDownWithSubqueries(
                Catalyst.replacing(
                    node ->
                        node instanceof Filter filter && terms(filter.condition()).contains(MARK)
                            ? with(filter, term -> !MARK.equals(term))
                            : null));
    return (LogicalPlan)
        found.transformAllExpressionsWithSubqueries(
            Catalyst.replacing(term -> MARK.equals(term) ? Literal$.MODULE$.TrueLiteral() : null));
  }

  private static LanceScan scan(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof LanceScan scan ? scan : null;
  }

  private static int size(LogicalPlan plan) {
    return 1 + Catalyst.list(plan.children()).stream().mapToInt(LanceDynamicPruning::size).sum();
  }

  /** The pruning filters of a plan, without those in subqueries. */
  private static List<DynamicPruningSubquery> filters(LogicalPlan plan) {
    List<DynamicPruningSubquery> found = new ArrayList<>();
    plan.foreach(node -> {
      if (node instanceof Filter filter) {
        found.addAll(filtersOf(filter));
      }
      return null;
    });
    return found;
  }

  private static List<DynamicPruningSubquery> filtersOf(Filter filter) {
    return terms(filter.condition()).stream()
        .filter(DynamicPruningSubquery.class::isInstance)
        .map(DynamicPruningSubquery.class::cast)
        .toList();
  }

  /** The conjuncts of a condition. */
  private static List<Expression> terms(Expression condition) {
    List<Expression> found = new ArrayList<>();
    if (condition instanceof And both) {
      found.addAll(terms(both.left()));
      found.addAll(terms(both.right()));
    } else {
      found.add(condition);
    }
    return found;
  }

  /** The filter reduced to the matching conjuncts, or its child if none is left. */
  private static LogicalPlan with(Filter filter, Predicate<Expression> isKept) {
    return filtered(filter.child(), terms(filter.condition()).stream().filter(isKept).toList());
  }

  private static LogicalPlan filtered(LogicalPlan rows, List<Expression> terms) {
    return terms.stream().reduce(And::new).<LogicalPlan>map(condition -> new Filter(condition, rows)).orElse(rows);
  }
}
