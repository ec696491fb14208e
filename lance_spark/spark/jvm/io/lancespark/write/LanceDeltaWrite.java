package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.LanceMetrics;
import io.lancespark.python.LancePy;
import io.lancespark.python.LanceRunner;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
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

/** The rows of one statement that go and come: files by the tasks, one commit by the driver. */
public final class LanceDeltaWrite implements DeltaWrite, DeltaBatchWrite {
  private final JsonNode handle;
  private final Collection<JsonNode> targetReads;
  private final String description;
  private final byte[] function;
  private final byte[] job;
  private final StructType ids;
  private final StructType rows;
  private JsonNode written = Json.object();

  /**
   * A write.
   *
   * @param handle the target
   * @param targetReads the requests of its scans, complete when the commit comes
   */
  LanceDeltaWrite(
      JsonNode handle, Collection<JsonNode> targetReads, LancePy.Reply plan, StructType ids, StructType rows) {
    this.handle = handle;
    this.targetReads = targetReads;
    this.description = plan.body().get("description").asText();
    this.function = plan.attachments().get(0);
    this.job = plan.attachments().get(1);
    this.ids = ids;
    this.rows = rows;
  }

  @Override
  public String description() {
    return description;
  }

  /** What Spark's log calls the write. */
  @Override
  public String toString() {
    return description;
  }

  @Override
  public DeltaBatchWrite toBatch() {
    return this;
  }

  @Override
  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
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
    written =
        LanceReruns.commit(
            handle, () -> LancePy.call("row_level.commit", request, attachments).body().get("metrics"));
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
  public CustomMetric[] supportedCustomMetrics() {
    return LanceMetrics.ofWrites();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return LanceMetrics.values(written);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    List<byte[]> attachments = attachments(messages);
    ObjectNode request = Json.object();
    request.put("all_tasks_told", attachments.size() == messages.length + 1);
    LancePy.call("row_level.abort", request, attachments);
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

  /** The job, then what the tasks told, those that did aside. */
  private List<byte[]> attachments(WriterCommitMessage[] messages) {
    List<byte[]> attachments = new ArrayList<>();
    attachments.add(job);
    for (WriterCommitMessage message : messages) {
      if (message != null) {
        attachments.add(LanceRunner.message(message));
      }
    }
    return attachments;
  }
}
