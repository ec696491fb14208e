package io.lancespark.compat.optimizer;

import io.lancespark.compat.Scans;
import io.lancespark.compat.SessionConf;
import io.lancespark.read.LanceScan;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.BaseEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.DeserializeToObject;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapElements;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.plans.logical.MapInPandas;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * Coalesces small partitions into fewer tasks where the plan does not use their keys.
 *
 * <p>Spark asks a scan for its partitioning before it knows whether a join or an aggregation needs it, so a scan
 * first has one task per partition. A filter over ten thousand small partitions would spend most of its time starting
 * tasks.
 */
public final class LanceTaskCoalescing extends Rule<LogicalPlan> {
  /** Nodes that do not depend on the partitioning of their input. */
  private static final List<Class<?>> PLAIN =
      List.of(
          Project.class,
          Filter.class,
          Sort.class,
          LocalLimit.class,
          GlobalLimit.class,
          Offset.class,
          Union.class,
          Generate.class,
          Expand.class,
          Sample.class,
          BaseEvalPython.class,
          MapInArrow.class,
          MapInPandas.class,
          MapPartitions.class,
          MapElements.class,
          DeserializeToObject.class,
          SerializeFromObject.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return Settings.isEnabled(Settings.COALESCE_TASKS) ? coalesced(plan) : plan;
  }

  private LogicalPlan coalesced(LogicalPlan node) {
    if (node instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof LanceScan scan) {
      LanceScan coalesced = scan.coalesced();
      return coalesced == scan ? relation : Scans.withoutKeys(relation, coalesced);
    }
    if (usesKeys(node)) {
      return node;
    }
    return (LogicalPlan) node.mapChildren(child -> coalesced((LogicalPlan) child));
  }

  /** Whether a node or one above it may use the partitioning by key; true for unknown nodes. */
  private boolean usesKeys(LogicalPlan node) {
    boolean isOther = node instanceof Aggregate aggregate ? !aggregate.groupingExpressions().isEmpty() : !isPlain(node);
    return isOther && SessionConf.usesPartitionKeys();
  }

  private static boolean isPlain(LogicalPlan node) {
    return PLAIN.stream().anyMatch(kind -> kind.isInstance(node));
  }
}
