package io.lancespark.compat;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.collection.immutable.Seq;

/** Copies of relations with other parts. */
final class ScanCopies {
  private ScanCopies() {}

  static DataSourceV2ScanRelation with(DataSourceV2ScanRelation relation, Scan scan, Option<Seq<Expression>> keys) {
    return relation.copy(
        relation.relation(), scan, relation.output(), keys, relation.ordering(), relation.pushedFilters());
  }
}
