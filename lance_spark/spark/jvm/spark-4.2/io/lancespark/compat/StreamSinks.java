package io.lancespark.compat;

import org.apache.spark.sql.catalyst.analysis.V2TableReference;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.types.StructType;

/** Sinks of streaming queries. */
final class StreamSinks {
  private StreamSinks() {}

  /** The table that a query writes to by name; null if it writes in another way. */
  static StreamSink of(WriteToMicroBatchDataSource write) {
    if (!(write.relation() instanceof V2TableReference table)) {
      return null;
    }
    StructType columns = new StructType();
    for (Column column : Catalyst.list(table.info().columns())) {
      columns = columns.add(column.name(), column.dataType(), column.nullable());
    }
    return new StreamSink(table.catalog(), table.identifier(), columns);
  }
}
