package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.LanceJob;
import io.lancespark.python.PythonChannel;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** One write job: files by the tasks, one commit by the driver. */
public final class LanceWrite extends LanceRowsWrite implements BatchWrite {
  private final StructType columns;
  private final Consumer<List<byte[]>> staged;
  private final boolean replaces;

  /**
   * @param staged takes the job and the task results for a commit that comes later; null if the write commits
   */
  LanceWrite(JsonNode handle, PythonChannel.Reply plan, StructType columns, Consumer<List<byte[]>> staged) {
    super(handle, plan, true);
    this.replaces = plan.body().get("replaces").asBoolean();
    this.columns = columns;
    this.staged = staged;
  }

  @Override
  public BatchWrite toBatch() {
    return this;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    shareNumTasks(info);
    return writers(columns);
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    List<byte[]> attachments = attachments(messages);
    if (staged != null) {
      staged.accept(attachments);
    }
    ObjectNode request = Json.object();
    if (replaces) {
      List<byte[]> rows = replacedRows();
      if (rows != null) {
        request.put("num_found", rows.size());
        attachments.addAll(rows);
      }
    }
    if (staged != null) {
      count(() -> PythonChannel.call("write.metrics", request, attachments));
      return;
    }
    LanceStatement statement = LanceStatement.running();
    if (statement != null && statement.isInsertingMerge()) {
      request.set("target", handle);
      request.set("reads", statement.reads());
    }
    commit(() -> PythonChannel.call("write.commit", request, attachments));
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    List<byte[]> attachments = attachments(messages);
    PythonChannel.call("write.abort", abortRequest(attachments, messages), attachments);
  }

  /** The replaced rows that tasks have found; null if the commit is to search for them. */
  private List<byte[]> replacedRows() {
    List<byte[]> search = PythonChannel.call("write.search", Json.object(), List.of(job)).attachments();
    return search.isEmpty() ? null : LanceJob.run(description + ": search for replaced rows", search.get(0), search.subList(1, search.size()));
  }
}
