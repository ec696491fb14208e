package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.SparkDeltaWrite;
import io.lancespark.python.Json;
import io.lancespark.python.LanceRunner;
import io.lancespark.python.PythonChannel;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** The deleted, rewritten and new rows of one statement. */
public final class LanceDeltaWrite extends LanceJobWrite implements DeltaWrite, SparkDeltaWrite {
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
    LanceRunner runner = new LanceRunner(function, LanceDeltaWriter.schema(ids, rows));
    return new Writers(runner, ids, rows, description);
  }

  @Override
  public void commit(WriterCommitMessage[] messages, Map<String, Long> counts) {
    ObjectNode request = Json.object();
    ObjectNode counted = request.putObject("counts");
    counts.forEach(counted::put);
    request.set("reads", reads());
    List<byte[]> attachments = attachments(messages);
    commit(() -> PythonChannel.call("row_level.commit", request, attachments));
  }

  /** The scans of the target, and all others of the statement that may read the same table. */
  private ArrayNode reads() {
    Set<JsonNode> requests = new LinkedHashSet<>(targetReads);
    LanceStatement statement = LanceStatement.running();
    if (statement != null) {
      statement.reads().forEach(requests::add);
    }
    return Json.array().addAll(requests);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    List<byte[]> attachments = attachments(messages);
    PythonChannel.call("row_level.abort", abortRequest(attachments, messages), attachments);
  }

  private record Writers(LanceRunner runner, StructType ids, StructType rows, String description)
      implements DeltaWriterFactory {
    @Override
    public DeltaWriter<InternalRow> createWriter(int partitionId, long taskId) {
      return new LanceDeltaWriter(runner, ids, rows);
    }

    /** For Spark's log. */
    @Override
    public String toString() {
      return description;
    }
  }
}
