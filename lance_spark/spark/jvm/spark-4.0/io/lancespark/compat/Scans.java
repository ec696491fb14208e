package io.lancespark.compat;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.collection.immutable.Seq;

/** Relations with another scan. */
public final class Scans {
  private Scans() {}

  public static DataSourceV2ScanRelation with(DataSourceV2ScanRelation relation, Scan scan) {
    return with(relation, scan, relation.keyGroupedPartitioning());
  }

  /** A relation whose rows are not grouped by keys. */
  public static DataSourceV2ScanRelation withoutKeys(DataSourceV2ScanRelation relation, Scan scan) {
    return with(relation, scan, Option.empty());
  }

  private static DataSourceV2ScanRelation with(
      DataSourceV2ScanRelation relation, Scan scan, Option<Seq<Expression>> keys) {
    return relation.copy(relation.relation(), scan, relation.output(), keys, relation.ordering());
  }
}
