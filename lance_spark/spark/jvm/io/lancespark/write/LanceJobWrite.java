package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.ArrowRunner;
import io.lancespark.python.Json;
import io.lancespark.python.LanceMetrics;
import io.lancespark.python.PythonChannel;
import io.lancespark.table.LanceCachedPlans;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** What writes have in common: a Python job whose tasks write files, and one commit or abort by the driver. */
public abstract class LanceJobWrite {
  private static final String NUM_TASKS = "lance.num_tasks";

  protected final JsonNode handle;
  protected final String description;
  protected final byte[] function;
  protected final byte[] job;
  private boolean commitAsked;
  private JsonNode metrics = Json.object();

  /**
   * A write.
   *
   * @param handle the target
   * @param plan the function of the tasks and the job are attached
   */
  protected LanceJobWrite(JsonNode handle, PythonChannel.Reply plan) {
    this.handle = handle;
    this.description = plan.body().get("description").asText();
    this.function = plan.attachments().get(0);
    this.job = plan.attachments().get(1);
  }

  /** Tells the tasks of the write how many they are, which Spark does not tell Python. */
  protected static void shareNumTasks(PhysicalWriteInfo info) {
    SparkSession.active().sparkContext().setLocalProperty(NUM_TASKS, String.valueOf(info.numPartitions()));
  }

  public String description() {
    return description;
  }

  /** What Spark's log calls the write. */
  @Override
  public String toString() {
    return description;
  }

  public CustomMetric[] supportedCustomMetrics() {
    return LanceMetrics.ofWrites();
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return LanceMetrics.values(metrics);
  }

  /** Runs {@code commit}; after a conflict the statement runs again on the newest version of the target. */
  final void commit(Supplier<PythonChannel.Reply> commit) {
    commitAsked = true;
    try {
      metrics = LanceReruns.commit(handle, () -> metricsOf(commit.get()));
    } finally {
      LanceCachedPlans.refresh(handle);
    }
  }

  /** Keeps what {@code count} has counted, for a table whose commit comes later. */
  protected final void count(Supplier<PythonChannel.Reply> count) {
    commitAsked = true;
    metrics = metricsOf(count.get());
  }

  /** What was counted; null before the commit. */
  protected final JsonNode counted() {
    return metrics;
  }

  private static JsonNode metricsOf(PythonChannel.Reply reply) {
    return reply.body().get("metrics");
  }

  /** Whether the commit was asked for; its version may be there even if no reply came. */
  protected final boolean isCommitAsked() {
    return commitAsked;
  }

  /** What an abort says: a commit that was asked for after all tasks has decided about the files itself. */
  final ObjectNode abortRequest(List<byte[]> attachments, WriterCommitMessage[] messages) {
    ObjectNode request = Json.object();
    request.put("all_tasks_finished", commitAsked && attachments.size() == messages.length + 1);
    return request;
  }

  /** The job, then the results of the tasks that have finished. */
  protected List<byte[]> attachments(WriterCommitMessage[] messages) {
    List<byte[]> attachments = new ArrayList<>();
    attachments.add(job);
    for (WriterCommitMessage message : messages) {
      if (message != null) {
        attachments.add(ArrowRunner.message(message));
      }
    }
    return attachments;
  }
}
