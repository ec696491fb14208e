package io.lancespark.compat;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;

/** Relations with another scan. */
public final class Scans {
  private Scans() {}

  public static DataSourceV2ScanRelation with(DataSourceV2ScanRelation relation, Scan scan) {
    return ScanCopies.with(relation, scan, relation.keyGroupedPartitioning());
  }

  /** A relation whose rows are not grouped by keys. */
  public static DataSourceV2ScanRelation withoutKeys(DataSourceV2ScanRelation relation, Scan scan) {
    return ScanCopies.with(relation, scan, Option.empty());
  }
}
