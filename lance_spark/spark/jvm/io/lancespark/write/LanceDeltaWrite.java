package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.python.LanceRunner;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.write.DeleteSummary;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.MergeSummary;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.UpdateSummary;
import org.apache.spark.sql.connector.write.WriteSummary;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** The deleted, rewritten and new rows of one statement. */
public final class LanceDeltaWrite extends LanceJobWrite implements DeltaWrite, DeltaBatchWrite {
  private final Collection<JsonNode> targetReads;
  private final StructType ids;
  private final StructType rows;

  /**
   * A write.
   *
   * @param handle the target
   * @param targetReads the requests of its scans, complete when the commit comes
   */
  LanceDeltaWrite(
      JsonNode handle, Collection<JsonNode> targetReads, PythonChannel.Reply plan, StructType ids, StructType rows) {
    super(handle, plan);
    this.targetReads = targetReads;
    this.ids = ids;
    this.rows = rows;
  }

  @Override
  public DeltaBatchWrite toBatch() {
    return this;
  }

  @Override
  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    shareNumTasks(info);
    LanceRunner runner = new LanceRunner(function, LanceDeltaRow.schema(ids, rows));
    return new LanceDeltaWriterFactory(runner, ids, rows, description);
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    commit(messages, null);
  }

  @Override
  public void commit(WriterCommitMessage[] messages, WriteSummary summary) {
    ObjectNode request = Json.object();
    request.set("counts", counts(summary));
    request.set("reads", reads());
    List<byte[]> attachments = attachments(messages);
    commit(() -> PythonChannel.call("row_level.commit", request, attachments));
  }

  /** The scans of the target, and all others of the statement that may read the same table. */
  private ArrayNode reads() {
    Set<JsonNode> found = new LinkedHashSet<>(targetReads);
    LanceStatement statement = LanceStatement.running();
    if (statement != null) {
      statement.reads().forEach(found::add);
    }
    return Json.array().addAll(found);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    List<byte[]> attachments = attachments(messages);
    PythonChannel.call("row_level.abort", abortRequest(attachments, messages), attachments);
  }

  /** What Spark has counted, by the names that Spark gives the counters. */
  private static ObjectNode counts(WriteSummary summary) {
    ObjectNode counts = Json.object();
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
    return counts;
  }
}
