package io.lancespark.compat;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.connector.write.MergeSummary;

/** The numbers of rows of a MERGE, by the names that Spark gives the counters. */
final class MergeCounts {
  private MergeCounts() {}

  static Map<String, Long> of(MergeSummary merge) {
    Map<String, Long> counts = new LinkedHashMap<>();
    counts.put("numTargetRowsInserted", merge.numTargetRowsInserted());
    counts.put("numTargetRowsUpdated", merge.numTargetRowsUpdated());
    counts.put("numTargetRowsDeleted", merge.numTargetRowsDeleted());
    counts.put("numTargetRowsMatchedUpdated", merge.numTargetRowsMatchedUpdated());
    counts.put("numTargetRowsMatchedDeleted", merge.numTargetRowsMatchedDeleted());
    counts.put("numTargetRowsNotMatchedBySourceUpdated", merge.numTargetRowsNotMatchedBySourceUpdated());
    counts.put("numTargetRowsNotMatchedBySourceDeleted", merge.numTargetRowsNotMatchedBySourceDeleted());
    return counts;
  }
}
