package io.lancespark.compat;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.connector.write.DeleteSummary;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.MergeSummary;
import org.apache.spark.sql.connector.write.UpdateSummary;
import org.apache.spark.sql.connector.write.WriteSummary;
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

  @Override
  default void commit(WriterCommitMessage[] messages, WriteSummary summary) {
    Map<String, Long> counts = new LinkedHashMap<>();
    if (summary instanceof MergeSummary merge) {
      counts.put("numTargetRowsInserted", merge.numTargetRowsInserted());
      counts.put("numTargetRowsUpdated", merge.numTargetRowsUpdated());
      counts.put("numTargetRowsDeleted", merge.numTargetRowsDeleted());
      counts.put("numTargetRowsMatchedUpdated", merge.numTargetRowsMatchedUpdated());
      counts.put("numTargetRowsMatchedDeleted", merge.numTargetRowsMatchedDeleted());
      counts.put("numTargetRowsNotMatchedBySourceUpdated", merge.numTargetRowsNotMatchedBySourceUpdated());
      counts.put("numTargetRowsNotMatchedBySourceDeleted", merge.numTargetRowsNotMatchedBySourceDeleted());
    } else if (summary instanceof UpdateSummary update) {
      counts.put("numUpdatedRows", update.numUpdatedRows());
    } else if (summary instanceof DeleteSummary delete) {
      counts.put("numDeletedRows", delete.numDeletedRows());
    }
    commit(messages, counts);
  }
}
