package io.lancespark.compat;

import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;

/** Sinks of streaming queries. */
final class StreamSinks {
  private StreamSinks() {}

  /** The table that a query writes to by name; null if it writes in another way. */
  static StreamSink of(WriteToMicroBatchDataSource write) {
    DataSourceV2Relation relation = write.relation().getOrElse(() -> null);
    return relation == null || relation.catalog().isEmpty() || relation.identifier().isEmpty()
        ? null
        : new StreamSink(relation.catalog().get(), relation.identifier().get(), relation.schema());
  }
}
