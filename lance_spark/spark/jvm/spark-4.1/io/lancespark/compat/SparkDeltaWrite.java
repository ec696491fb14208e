package io.lancespark.compat;

import java.util.Map;
import org.apache.spark.sql.connector.write.MergeSummary;
import org.apache.spark.sql.connector.write.WriteSummary;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The methods of row-level writes that this Spark has: it counts the rows of MERGE. */
public interface SparkDeltaWrite extends CountedWrite {
  @Override
  default void commit(WriterCommitMessage[] messages, WriteSummary summary) {
    commit(messages, summary instanceof MergeSummary merge ? MergeCounts.of(merge) : Map.of());
  }
}
