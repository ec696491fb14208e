package io.lancespark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.ListQuery;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.Option;
import scala.PartialFunction;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets a scan that has taken its filter whole choose the rows of the other side of a join, and those the rows of the next.
 *
 * <p>Spark hands the join keys of one side to a scan of the other while the query runs (dynamic pruning), if the plan shows
 * a filter on the one side. A filter that a scan has taken whole is no longer in the plan. So this rule runs Spark's own
 * one again, with a mark where such filters were, and takes the marks away.
 *
 * <p>Of {@code lines JOIN suppliers JOIN nations WHERE nations.name = ...} Spark only lets the nations choose suppliers: rows
 * that keys have chosen are no filter to it. So the rule goes on with marks where keys have been put, as long as it finds
 * something. Spark cannot take keys from a broadcast that itself waits for keys. Where a scan has so many rows that it is
 * worth it, a query of its own asks for them: for the suppliers that have one of the nations.
 */
final class LanceJoinFilters extends Rule<LogicalPlan> {
  /** A comparison, which Spark takes for a selective filter. It is true: one that is left in a plan changes no rows. */
  private static final Expression MARK =
      new EqualTo(Literal$.MODULE$.apply("lance join mark"), Literal$.MODULE$.apply("lance join mark"));

  /** Tables that are joined in a row. Filters that are not done then are left out by Spark. */
  private static final int MOST_ROUNDS = 8;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    // Spark runs its last rules until they change nothing.
    if (!hasNewScans(plan) || !plan.exists(Join.class::isInstance)) {
      return plan;
    }
    LogicalPlan marked =
        plan.transformUp(
            new Replacing<>(node -> scan(node) != null && scan(node).leavesFewRows(), node -> new Filter(MARK, node)));
    LogicalPlan direct = withKeys(marked);
    List<DynamicPruningSubquery> broadcast = filters(direct);
    // Keys of keys take a query of their own, and few scans are worth one.
    boolean mayQuery = plan.exists(node -> scan(node) != null && scan(node).isWorthQuery());
    LogicalPlan found = mayQuery ? withKeysOfKeys(direct) : direct;
    return unmarked(
        (LogicalPlan)
            found.transformUp(
                new Replacing<>(
                    node -> node instanceof Filter filter && scan(filter.child()) != null,
                    node -> settled((Filter) node, scan(((Filter) node).child()), broadcast))));
  }

  private static boolean hasNewScans(LogicalPlan plan) {
    List<LanceScan> found = new ArrayList<>();
    plan.foreach(node -> {
      if (scan(node) != null && scan(node).isNewToJoins()) {
        found.add(scan(node));
      }
      return null;
    });
    return !found.isEmpty();
  }

  /** The plan with the keys of marked sides over the scans of other sides. */
  private LogicalPlan withKeys(LogicalPlan marked) {
    Set<ExprId> known = new HashSet<>();
    filters(marked).forEach(filter -> known.add(filter.exprId()));
    LogicalPlan turned = marked.transformUp(new Replacing<>(Join.class::isInstance, this::withBroadcastAtRight));
    LogicalPlan found = PartitionPruning$.MODULE$.apply(turned);
    found =
        (LogicalPlan)
            found.transformUpWithSubqueries(new Replacing<>(LanceJoinFilters::isTurned, LanceJoinFilters::turnedBack));
    found = found.transformUp(new Replacing<>(Join.class::isInstance, this::withBroadcast));
    found = CleanupDynamicPruningFilters$.MODULE$.apply(pushedDown(found));
    return found.transformUp(new Replacing<>(Filter.class::isInstance, node -> withoutRepetition((Filter) node, known)));
  }

  /** The plan with the keys of rows as well that keys have chosen. */
  private LogicalPlan withKeysOfKeys(LogicalPlan plan) {
    LogicalPlan found = plan;
    for (int round = 0; round < MOST_ROUNDS && !filters(found).isEmpty(); round++) {
      Set<ExprId> known = new HashSet<>();
      filters(found).forEach(filter -> known.add(filter.exprId()));
      LogicalPlan marked =
          found.transformUp(new Replacing<>(LanceJoinFilters::choosesByKeys, node -> new Filter(MARK, node)));
      found = withKeys(pushedDown(marked));
      if (filters(found).stream().allMatch(filter -> known.contains(filter.exprId()))) {
        break;
      }
    }
    return found;
  }

  private static LogicalPlan pushedDown(LogicalPlan plan) {
    LogicalPlan found = plan;
    for (LogicalPlan before = null; before == null || !before.fastEquals(found); ) {
      before = found;
      found = PushDownPredicates$.MODULE$.apply(before);
    }
    return found;
  }

  /** Spark's rule chooses rows of the left side if it can, and then not those of the right one. */
  private LogicalPlan withBroadcastAtRight(LogicalPlan node) {
    Join join = (Join) node;
    boolean turns =
        join.joinType() == Inner$.MODULE$
            && join.condition().isDefined()
            && PartitionPruning$.MODULE$.getBroadcastHashJoinBuildSide(join, conf()).contains(BuildLeft$.MODULE$);
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

  /**
   * Each filter by the same keys once. Of one from a round before and one of this round the latter stays, unless they are
   * the same: only it has the other side as it is now, with the filters that have come to it meanwhile.
   */
  private static LogicalPlan withoutRepetition(Filter filter, Set<ExprId> known) {
    List<DynamicPruningSubquery> kept = new ArrayList<>();
    for (Expression term : terms(filter.condition())) {
      if (term instanceof DynamicPruningSubquery found) {
        DynamicPruningSubquery same = kept.stream().filter(other -> hasSameKeys(other, found)).findFirst().orElse(null);
        if (same == null) {
          kept.add(found);
        } else if (known.contains(same.exprId()) != known.contains(found.exprId())) {
          boolean isUnchanged = same.buildQuery().sameResult(found.buildQuery());
          kept.set(kept.indexOf(same), known.contains(same.exprId()) == isUnchanged ? same : found);
        }
      }
    }
    return with(filter, term -> !(term instanceof DynamicPruningSubquery) || kept.contains(term));
  }

  private static boolean hasSameKeys(DynamicPruningSubquery one, DynamicPruningSubquery other) {
    return one.pruningKey().semanticEquals(other.pruningKey())
        && one.buildKeys().equals(other.buildKeys())
        && one.broadcastKeyIndices().equals(other.broadcastKeyIndices());
  }

  /** Whether keys choose the rows of this scan, and it has no mark yet. */
  private static boolean choosesByKeys(LogicalPlan node) {
    if (!(node instanceof Filter filter) || scan(filter.child()) == null) {
      return false;
    }
    List<Expression> terms = terms(filter.condition());
    return terms.stream().anyMatch(DynamicPruningSubquery.class::isInstance) && !terms.contains(MARK);
  }

  /**
   * The filter that stays over a scan.
   *
   * @param broadcast filters whose keys come from broadcasts alone
   */
  private static LogicalPlan settled(Filter filter, LanceScan scan, List<DynamicPruningSubquery> broadcast) {
    List<Expression> kept = new ArrayList<>();
    for (Expression term : terms(filter.condition())) {
      if (!(term instanceof DynamicPruningSubquery keys)) {
        kept.add(term);
      } else if (!(keys.pruningKey() instanceof Attribute column && scan.isPassing(column.name()))) {
        kept.add(settled(keys, scan, broadcast));
      }
    }
    return filtered(filter.child(), kept);
  }

  /** The filter that stays of one by keys; the mark is none. */
  private static Expression settled(
      DynamicPruningSubquery keys, LanceScan scan, List<DynamicPruningSubquery> broadcast) {
    if (filters(keys.buildQuery()).isEmpty()) {
      return keys;
    }
    Expression asked = scan.isWorthQuery() ? queried(keys) : null;
    if (asked != null) {
      return asked;
    }
    for (DynamicPruningSubquery other : broadcast) {
      if (hasSameKeys(other, keys)) {
        return other;
      }
    }
    return MARK;
  }

  /** The filter with a query for its keys; null if there can be none. */
  private static Expression queried(DynamicPruningSubquery keys) {
    if (!(key(keys) instanceof Attribute key) || !isRepeatable(keys.buildQuery())) {
      return null;
    }
    LogicalPlan query = new Project(scalaSeq(key), joined(keys.buildQuery()));
    ListQuery list = new ListQuery(query, scalaSeq(), NamedExpression.newExprId(), 1, scalaSeq(), Option.empty());
    return new DynamicPruningExpression(new InSubquery(scalaSeq(keys.pruningKey()), list));
  }

  /**
   * Whether a plan has the same rows each time: it is asked once for the keys and once for the join, and a key that only
   * the latter has would lose rows.
   */
  private static boolean isRepeatable(LogicalPlan plan) {
    if (!plan.deterministic() || plan.subqueries().exists(query -> true) && !isFilteredByKeys(plan)) {
      return false;
    }
    boolean isKnown = plan instanceof Project || plan instanceof Filter || plan instanceof Join;
    if (!isKnown && (scan(plan) == null || !scan(plan).hasAllRows())) {
      return false;
    }
    return CollectionConverters.asJava(plan.children()).stream().allMatch(LanceJoinFilters::isRepeatable);
  }

  /** Whether the only queries in a node are filters by keys, whose queries can be asked again as well. */
  private static boolean isFilteredByKeys(LogicalPlan node) {
    return node instanceof Filter filter
        && CollectionConverters.asJava(filter.subqueries()).size()
            == terms(filter.condition()).stream().filter(DynamicPruningSubquery.class::isInstance).count()
        && terms(filter.condition()).stream()
            .allMatch(term -> !(term instanceof DynamicPruningSubquery keys) || isRepeatable(keys.buildQuery()));
  }

  /** Rows with the keys of others, joined with those instead of filtered by them. */
  private static LogicalPlan joined(LogicalPlan plan) {
    return plan.transformUp(
        new Replacing<>(Filter.class::isInstance, node -> {
          Filter filter = (Filter) node;
          LogicalPlan rows = filter.child();
          List<Expression> kept = new ArrayList<>();
          for (Expression term : terms(filter.condition())) {
            if (!(term instanceof DynamicPruningSubquery keys)) {
              kept.add(term);
            } else if (!rows.outputSet().intersect(keys.buildQuery().outputSet()).nonEmpty()) {
              Expression same = new EqualTo(keys.pruningKey(), key(keys));
              rows = new Join(rows, joined(keys.buildQuery()), LeftSemi$.MODULE$, Option.apply(same), JoinHint.NONE());
            }
          }
          return filtered(rows, kept);
        }));
  }

  private static Expression key(DynamicPruningSubquery keys) {
    return keys.buildKeys().apply((Integer) keys.broadcastKeyIndices().head());
  }

  /** The plan without marks, wherever they are. */
  static LogicalPlan unmarked(LogicalPlan plan) {
    LogicalPlan found =
        (LogicalPlan)
            plan.transformDownWithSubqueries(
                new Replacing<>(
                    node -> node instanceof Filter filter && terms(filter.condition()).contains(MARK),
                    node -> with((Filter) node, term -> !MARK.equals(term))));
    return (LogicalPlan)
        found.transformAllExpressionsWithSubqueries(
            new Replacing<>(MARK::equals, mark -> Literal$.MODULE$.TrueLiteral()));
  }

  private static LanceScan scan(LogicalPlan node) {
    return node instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof LanceScan scan ? scan : null;
  }

  private static List<DynamicPruningSubquery> filters(LogicalPlan plan) {
    List<DynamicPruningSubquery> found = new ArrayList<>();
    plan.foreach(node -> {
      if (node instanceof Filter filter) {
        for (Expression term : terms(filter.condition())) {
          if (term instanceof DynamicPruningSubquery keys) {
            found.add(keys);
          }
        }
      }
      return null;
    });
    return found;
  }

  /** What a condition joins by AND. */
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

  /** A filter with those of its terms, or what it filters if there are none. */
  private static LogicalPlan with(Filter filter, Predicate<Expression> isKept) {
    return filtered(filter.child(), terms(filter.condition()).stream().filter(isKept).toList());
  }

  private static LogicalPlan filtered(LogicalPlan rows, List<Expression> terms) {
    return terms.stream().reduce(And::new).<LogicalPlan>map(condition -> new Filter(condition, rows)).orElse(rows);
  }

  @SafeVarargs
  private static <T> Seq<T> scalaSeq(T... items) {
    return CollectionConverters.asScala(List.of(items)).toSeq();
  }

  private record Replacing<T>(Predicate<T> which, UnaryOperator<T> change) implements PartialFunction<T, T> {
    @Override
    public boolean isDefinedAt(T node) {
      return which.test(node);
    }

    @Override
    public T apply(T node) {
      return change.apply(node);
    }
  }
}
