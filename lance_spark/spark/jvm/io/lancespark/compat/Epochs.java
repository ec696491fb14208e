package io.lancespark.compat;

import java.util.UUID;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.streaming.OutputMode;

/** State of running streaming queries, by their ids. */
public final class Epochs {
  private Epochs() {}

  /**
   * When Spark chose the rows of an epoch, as the checkpoint has it: of a replay that of the first time, in milliseconds;
   * null if Spark does not know.
   */
  public static Long planned(String query, long epoch) {
    // Without names of types: their packages differ between versions of Spark.
    var running = Sessions.active().sharedState().activeStreamingQueries().get(UUID.fromString(query));
    if (running == null) {
      return null;
    }
    var logged = running.offsetLog().offsetSeqMetadataForBatchId(epoch);
    return logged.isEmpty() ? null : (Long) logged.get().batchTimestampMs();
  }

  /** The sink of a query; null if no such query runs, or it writes in another way. */
  public static StreamSink sink(String query) {
    WriteToMicroBatchDataSource write = query == null ? null : write(query);
    return write == null ? null : StreamSinks.of(write);
  }

  /** Whether a query has the output mode update; false if no such query runs, or it writes in another way. */
  public static boolean updates(String query) {
    WriteToMicroBatchDataSource write = write(query);
    return write != null && write.outputMode().equals(OutputMode.Update());
  }

  private static WriteToMicroBatchDataSource write(String query) {
    var running = Sessions.active().sharedState().activeStreamingQueries().get(UUID.fromString(query));
    return running != null && running.logicalPlan() instanceof WriteToMicroBatchDataSource write ? write : null;
  }
}
