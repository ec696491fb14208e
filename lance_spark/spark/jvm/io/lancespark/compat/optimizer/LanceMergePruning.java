package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.PlanNodes;
import io.lancespark.compat.Scans;
import io.lancespark.read.LanceScan;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;

/**
 * Lets MERGE, and UPDATE and DELETE with a subquery, read only the rows of the changed table that have a key of the
 * other side, if that side is small.
 *
 * <p>A MERGE that inserts joins the table with all rows of its source, so Spark can broadcast neither: it would
 * broadcast only the table. So the keys are collected by a subquery of their own, which evaluates the source a second
 * time. Both evaluations must have the same keys, or a row of the table would seem to have no match and be inserted
 * again. Therefore only sources made of known nodes are evaluated twice.
 */
public final class LanceMergePruning extends Rule<LogicalPlan> {
  /** The estimated size of a source whose keys are collected. */
  private static final long MOST_BYTES = 32L << 20;

  /** Joins in which a row of this side without a match on the other side has no effect. */
  private static final Set<JoinType> PRUNES_LEFT = Set.of(Inner$.MODULE$, LeftSemi$.MODULE$, RightOuter$.MODULE$);

  private static final Set<JoinType> PRUNES_RIGHT = Set.of(Inner$.MODULE$, LeftOuter$.MODULE$, LeftAnti$.MODULE$);

  /** Nodes whose rows depend on their expressions and children only: no limits, samples, windows, or cached data. */
  private static final List<Class<?>> STABLE_NODES =
      List.of(
          LocalRelation.class,
          OneRowRelation.class,
          Range.class,
          Project.class,
          Filter.class,
          Join.class,
          Aggregate.class,
          Union.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!(plan instanceof V2WriteCommand) || !Settings.isEnabled(Settings.MERGE_PRUNING)) {
      return plan;
    }
    return (LogicalPlan)
        plan.transformUp(Catalyst.replacing(node -> node instanceof Join join ? pruned(join) : null));
  }

  private static LogicalPlan pruned(Join join) {
    var equal = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (equal.isEmpty()) {
      return join;
    }
    List<Expression> left = Catalyst.list(equal.get()._2());
    List<Expression> right = Catalyst.list(equal.get()._3());
    if (PRUNES_LEFT.contains(join.joinType()) && isChanged(target(join.left())) && isSmall(join.right())
        && isRepeatable(join.right())) {
      LogicalPlan rows = withKeys(join.left(), left, join.right(), right);
      return new Join(rows, join.right(), join.joinType(), join.condition(), join.hint());
    }
    boolean isInserted = join.joinType() == LeftAnti$.MODULE$;
    DataSourceV2ScanRelation target = target(join.right());
    if (PRUNES_RIGHT.contains(join.joinType())
        && (isInserted ? target != null : isChanged(target))
        && isSmall(join.left())
        && isRepeatable(join.left())) {
      LogicalPlan rows = withKeys(join.right(), right, join.left(), left);
      return new Join(join.left(), rows, join.joinType(), join.condition(), join.hint());
    }
    return join;
  }

  /** The Lance scan that a plan selects rows and columns of, if it does nothing else and has no keys yet. */
  private static DataSourceV2ScanRelation target(LogicalPlan plan) {
    if (plan instanceof Project project) {
      return target(project.child());
    }
    if (plan instanceof Filter filter) {
      boolean hasKeys = filter.condition().exists(DynamicPruningSubquery.class::isInstance);
      return hasKeys || !filter.condition().deterministic() ? null : target(filter.child());
    }
    return plan instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof LanceScan ? relation : null;
  }

  private static boolean isChanged(DataSourceV2ScanRelation target) {
    return target != null && ((LanceScan) target.scan()).isForChanges();
  }

  /** The plan, whose target reads only rows with the keys of {@code source}. */
  private static LogicalPlan withKeys(
      LogicalPlan plan, List<Expression> keys, LogicalPlan source, List<Expression> sourceKeys) {
    DataSourceV2ScanRelation target = target(plan);
    DataSourceV2ScanRelation opened = Scans.with(target, ((LanceScan) target.scan()).withRuntimeFilters());
    LogicalPlan rows = opened;
    for (int index = 0; index < keys.size(); index++) {
      Expression key = traced(keys.get(index), plan);
      boolean isColumn = key instanceof AttributeReference || key instanceof GetStructField;
      if (isPartitionOf(key, target)
          && isPartitionOf(traced(sourceKeys.get(index), source), target(source))) {
        continue; // The join itself compares the partitions of both sides, without a shuffle.
      }
      if (isColumn && PartitionPruning$.MODULE$.getFilterableTableScan(key, opened).isDefined()) {
        rows = new Filter(PlanNodes.keysOf(key, source, sourceKeys, index), rows);
      }
    }
    return rows == opened ? plan : withScan(plan, rows);
  }

  /** The expression over the columns of a scan that a key comes from, or null. */
  private static Expression traced(Expression key, LogicalPlan plan) {
    var origin = ExtractEquiJoinKeys$.MODULE$.findExpressionAndTrackLineageDown(key, plan);
    return origin.isDefined() ? origin.get()._1() : null;
  }

  /** Whether a scan is partitioned by the values of a key. */
  private static boolean isPartitionOf(Expression key, DataSourceV2ScanRelation scan) {
    return key != null
        && scan != null
        && scan.keyGroupedPartitioning().isDefined()
        && Catalyst.list(scan.keyGroupedPartitioning().get()).stream().anyMatch(key::semanticEquals);
  }

  /** What {@link #target} looks through, with another scan below. */
  private static LogicalPlan withScan(LogicalPlan plan, LogicalPlan scan) {
    if (plan instanceof Project project) {
      return new Project(project.projectList(), withScan(project.child(), scan));
    }
    return plan instanceof Filter filter ? new Filter(filter.condition(), withScan(filter.child(), scan)) : scan;
  }

  private static boolean isSmall(LogicalPlan source) {
    return source.stats().sizeInBytes().compare(scala.math.BigInt.apply(MOST_BYTES)) <= 0;
  }

  /** Whether every evaluation of a plan has the same rows. */
  private static boolean isRepeatable(LogicalPlan plan) {
    return hasStableRows(plan)
        && Catalyst.list(plan.expressions()).stream().allMatch(LanceMergePruning::isRepeatable)
        && Catalyst.list(plan.children()).stream().allMatch(LanceMergePruning::isRepeatable);
  }

  private static boolean hasStableRows(LogicalPlan node) {
    if (node instanceof LogicalRelation relation) {
      return relation.relation() instanceof HadoopFsRelation;
    }
    if (node instanceof DataSourceV2ScanRelation relation) {
      return relation.scan() instanceof LanceScan || relation.scan() instanceof FileScan;
    }
    return STABLE_NODES.stream().anyMatch(kind -> kind.isInstance(node));
  }

  private static boolean isRepeatable(Expression expression) {
    if (expression instanceof DynamicPruningSubquery) {
      return true; // It removes only rows that the join above removes.
    }
    boolean isStable =
        !(expression instanceof SubqueryExpression)
            && !(expression instanceof UserDefinedExpression) // They only claim to be deterministic.
            && (!(expression instanceof AggregateFunction) || isStable((AggregateFunction) expression));
    return isStable
        && expression.deterministic()
        && Catalyst.list(expression.children()).stream().allMatch(LanceMergePruning::isRepeatable);
  }

  /** Whether the order of the rows does not matter to an aggregate: sums of floats are rounded in their order. */
  private static boolean isStable(AggregateFunction function) {
    return function instanceof Count || function instanceof Min || function instanceof Max;
  }
}
