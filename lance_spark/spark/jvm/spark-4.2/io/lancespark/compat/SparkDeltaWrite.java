package io.lancespark.compat;

import java.util.Map;
import org.apache.spark.sql.connector.write.DeleteSummary;
import org.apache.spark.sql.connector.write.MergeSummary;
import org.apache.spark.sql.connector.write.UpdateSummary;
import org.apache.spark.sql.connector.write.WriteSummary;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The methods of row-level writes that this Spark has. */
public interface SparkDeltaWrite extends CountedWrite {
  @Override
  default void commit(WriterCommitMessage[] messages, WriteSummary summary) {
    commit(messages, counts(summary));
  }

  private static Map<String, Long> counts(WriteSummary summary) {
    if (summary instanceof MergeSummary merge) {
      return MergeCounts.of(merge);
    } else if (summary instanceof UpdateSummary update) {
      return Map.of("numUpdatedRows", update.numUpdatedRows());
    }
    return summary instanceof DeleteSummary delete ? Map.of("numDeletedRows", delete.numDeletedRows()) : Map.of();
  }
}
