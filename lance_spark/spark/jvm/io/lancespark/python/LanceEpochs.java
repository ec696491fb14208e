package io.lancespark.python;

import java.util.UUID;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;

/** What a running streaming query knows of its epochs. */
public final class LanceEpochs {
  private LanceEpochs() {}

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

  /** The relation that a query writes to in each epoch; null if no such query runs, or it writes in another way. */
  public static NamedRelation sink(String query) {
    WriteToMicroBatchDataSource write = query == null ? null : write(query);
    return write == null ? null : write.relation();
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
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    return session.sharedState().activeStreamingQueries().get(UUID.fromString(query));
  }
}
