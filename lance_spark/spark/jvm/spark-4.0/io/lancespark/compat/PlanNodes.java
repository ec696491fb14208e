package io.lancespark.compat;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.BuildSide;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** Nodes of plans that are made by our rules. */
public final class PlanNodes {
  private PlanNodes() {}

  /** Rows of the driver. */
  public static LocalTableScanExec rows(Seq<Attribute> output, List<? extends InternalRow> rows, boolean isResult) {
    return new LocalTableScanExec(output, Catalyst.seq(rows), Option.empty());
  }

  /** How the rows of the driver that are a result are divided: they are one partition, as {@link #execute} makes it. */
  public static Partitioning partitioning(LocalTableScanExec rows) {
    return SinglePartition$.MODULE$;
  }

  /** The rows in one partition. Before 4.3 Spark divides them, and would sort them again. */
  public static RDD<InternalRow> execute(LocalTableScanExec rows) {
    return rows.sparkContext().parallelize(rows.rows(), 1, ClassTag$.MODULE$.apply(InternalRow.class));
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
        Option.empty());
  }

  /** The side that a hash join broadcasts; null if it broadcasts none. */
  public static BuildSide broadcastSide(Join join) {
    if (ExtractEquiJoinKeys$.MODULE$.unapply(join).isEmpty()) {
      return null;
    }
    Option<BuildSide> hinted = PartitionPruning$.MODULE$.getBroadcastBuildSide(join, true, SQLConf.get());
    return hinted
        .orElse(() -> PartitionPruning$.MODULE$.getBroadcastBuildSide(join, false, SQLConf.get()))
        .getOrElse(() -> null);
  }
}
