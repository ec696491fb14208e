package io.lancespark.compat;

import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Seq;

/** Nodes of plans with something else in place of a part of them. */
public final class NodeCopies {
  private NodeCopies() {}

  /** The instruction of a MERGE with other values. */
  public static MergeRows.Instruction with(MergeRows.Keep keep, Seq<Expression> output) {
    return keep.copy(keep.context(), keep.condition(), output);
  }

  static DataSourceV2Relation with(DataSourceV2Relation relation, Table table, Seq<AttributeReference> columns) {
    return relation.copy(
        table, columns, relation.catalog(), relation.identifier(), relation.options(), relation.timeTravelSpec());
  }
}
