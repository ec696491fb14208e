package io.lancespark.streaming;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.RowConversion;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.table.LanceCachedPlans;
import io.lancespark.write.LanceRowsWrite;
import io.lancespark.write.LanceWriterFactory;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** One epoch: files by the tasks, one commit by the driver, which has the epoch's mark. */
final class LanceEpochWrite extends LanceRowsWrite implements StreamingWrite {
  private final RowConversion conversion;
  private final String query;
  private final boolean byKey;

  /**
   * @param distributes whether Spark can distribute the rows as the plan asks: as the query has them, by functions of the
   *     catalog if any are needed
   * @param byKey whether the plan needs all rows of a key in one task
   * @param query its id
   */
  LanceEpochWrite(
      JsonNode handle,
      PythonChannel.Reply plan,
      RowConversion conversion,
      boolean distributes,
      boolean byKey,
      String query) {
    super(handle, plan, distributes);
    this.conversion = conversion;
    this.byKey = byKey;
    this.query = query;
  }

  @Override
  public boolean distributionStrictlyRequired() {
    return byKey;
  }

  @Override
  public StreamingWrite toStreaming() {
    return this;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    shareNumTasks(info);
    return new Factory(writers(conversion.columns()), conversion);
  }

  @Override
  public void commit(long epochId, WriterCommitMessage[] messages) {
    ObjectNode request = Json.object();
    request.put("epoch", epochId);
    List<byte[]> attachments = attachments(messages);
    try {
      count(() -> PythonChannel.call("stream.commit", request, attachments));
    } finally {
      LanceCachedPlans.refresh(handle);
    }
    LanceSinkMetrics.keep(query, epochId, counted());
  }

  @Override
  public void abort(long epochId, WriterCommitMessage[] messages) {
    ObjectNode request = Json.object();
    request.put("epoch", epochId);
    request.put("commit_asked", isCommitAsked());
    PythonChannel.call("stream.abort", request, attachments(messages));
  }

  private record Factory(LanceWriterFactory writers, RowConversion conversion)
      implements StreamingDataWriterFactory {
    private static final long serialVersionUID = 1L;

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epochId) {
      DataWriter<InternalRow> writer = writers.createWriter(partition, task);
      return conversion.changesRows() ? new Converting(writer, conversion) : writer;
    }

    @Override
    public String toString() {
      return writers.toString();
    }
  }

  /** Writes rows in the columns of the table. */
  private static final class Converting implements DataWriter<InternalRow> {
    private final DataWriter<InternalRow> writer;
    private final RowConversion conversion;

    Converting(DataWriter<InternalRow> writer, RowConversion conversion) {
      this.writer = writer;
      this.conversion = conversion;
    }

    @Override
    public void writeAll(Iterator<InternalRow> rows) throws java.io.IOException {
      writer.writeAll(rows.hasNext() ? conversion.convert(rows) : rows);
    }

    @Override
    public void write(InternalRow row) throws java.io.IOException {
      writer.write(row);
    }

    @Override
    public WriterCommitMessage commit() throws java.io.IOException {
      return writer.commit();
    }

    @Override
    public void abort() throws java.io.IOException {
      writer.abort();
    }

    @Override
    public void close() throws java.io.IOException {
      writer.close();
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return writer.currentMetricsValues();
    }
  }
}
