package io.lancespark.compat;

import java.util.UUID;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.analysis.V2TableReference;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** State of running streaming queries, by their ids. */
public final class Epochs {
  private Epochs() {}

  /** The table that a query writes to by name, with the columns that it had when the query started. */
  public record Sink(CatalogPlugin catalog, Identifier identifier, StructType columns) {}

  /**
   * When Spark chose the rows of an epoch, as the checkpoint has it: of a replay that of the first time, in milliseconds;
   * null if Spark does not know.
   */
  public static Long planned(String query, long epoch) {
    StreamExecution running = running(query);
    if (running == null) {
      return null;
    }
    Option<OffsetSeqMetadataBase> logged = running.offsetLog().offsetSeqMetadataForBatchId(epoch);
    return logged.isEmpty() ? null : (Long) logged.get().batchTimestampMs();
  }

  /** The sink of a query; null if no such query runs, or it writes in another way. */
  public static Sink sink(String query) {
    WriteToMicroBatchDataSource write = query == null ? null : write(query);
    NamedRelation relation = write == null ? null : write.relation();
    if (!(relation instanceof V2TableReference table)) {
      return null;
    }
    StructType columns = new StructType();
    for (Column column : Catalyst.list(table.info().columns())) {
      columns = columns.add(column.name(), column.dataType(), column.nullable());
    }
    return new Sink(table.catalog(), table.identifier(), columns);
  }

  /** Whether a query has the output mode update; false if no such query runs, or it writes in another way. */
  public static boolean updates(String query) {
    WriteToMicroBatchDataSource write = write(query);
    return write != null && write.outputMode().equals(OutputMode.Update());
  }

  private static WriteToMicroBatchDataSource write(String query) {
    StreamExecution running = running(query);
    return running != null && running.logicalPlan() instanceof WriteToMicroBatchDataSource write ? write : null;
  }

  private static StreamExecution running(String query) {
    return Sessions.active().sharedState().activeStreamingQueries().get(UUID.fromString(query));
  }
}
