package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;

/** Plan nodes of scans whose constructors differ between versions of Spark. */
public final class Scans {
  private Scans() {}

  /** The relation with another scan. */
  public static DataSourceV2ScanRelation with(DataSourceV2ScanRelation relation, Scan scan) {
    return with(relation, scan, relation.keyGroupedPartitioning());
  }

  /** The relation with another scan, whose rows are not grouped by keys. */
  public static DataSourceV2ScanRelation withoutKeys(DataSourceV2ScanRelation relation, Scan scan) {
    return with(relation, scan, Option.empty());
  }

  private static DataSourceV2ScanRelation with(
      DataSourceV2ScanRelation relation, Scan scan, Option<Seq<Expression>> keys) {
    return relation.copy(
        relation.relation(),
        scan,
        relation.output(),
        keys,
        relation.ordering(),
        relation.pushedFilters(),
        relation.mergeableScan());
  }

  /** Rows of the driver. */
  public static LocalTableScanExec rows(Seq<Attribute> output, List<? extends InternalRow> rows, boolean isResult) {
    return new LocalTableScanExec(output, Catalyst.seq(rows), Option.empty(), isResult);
  }

  /** The condition that {@code key} is among the values of {@code keys.get(index)} in the rows of {@code source}. */
  public static DynamicPruningSubquery keysOf(
      Expression key, LogicalPlan source, List<Expression> keys, int index) {
    Seq<Object> indices = Catalyst.seq(List.of(index));
    return new DynamicPruningSubquery(
        key,
        source,
        Catalyst.seq(keys),
        indices,
        false,
        NamedExpression.newExprId(),
        Option.empty(),
        Option.empty());
  }

  /** The side that a hash join broadcasts; null if it broadcasts none. */
  public static BuildSide broadcastSide(Join join) {
    return PartitionPruning$.MODULE$.getBroadcastHashJoinBuildSide(join, SQLConf.get()).getOrElse(() -> null);
  }
}
