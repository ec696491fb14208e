package io.lancespark.compat;

import java.util.Map;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** A row-level write that is passed the numbers of rows that Spark has counted. */
public interface CountedWrite extends DeltaBatchWrite {
  /**
   * Commits the results of the tasks.
   *
   * @param counts by the names that Spark gives the counters; empty if it has counted nothing
   */
  void commit(WriterCommitMessage[] messages, Map<String, Long> counts);

  @Override
  default void commit(WriterCommitMessage[] messages) {
    commit(messages, Map.of());
  }
}
