package io.lancespark.streaming;

import io.lancespark.compat.ArrowRunner;
import io.lancespark.python.LanceMetrics;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** An epoch that the table has already: its rows are not written again. */
final class LanceDoneEpoch implements Write, StreamingWrite {
  private final String table;
  private final String query;

  LanceDoneEpoch(String table, String query) {
    this.table = table;
    this.query = query;
  }

  @Override
  public String description() {
    return "lance streaming epoch that " + table + " has already";
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return LanceMetrics.ofWrites();
  }

  @Override
  public StreamingWrite toStreaming() {
    return this;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new Factory();
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    // It is committed.
    LanceSinkMetrics.keep(query, epoch, null);
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    // Nothing was written.
  }

  @Override
  public String toString() {
    return description();
  }

  private static final class Factory implements StreamingDataWriterFactory {
    private static final long serialVersionUID = 1L;

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return new Nothing();
    }
  }

  private static final class Nothing implements DataWriter<InternalRow> {
    @Override
    public void writeAll(Iterator<InternalRow> rows) {
      // The rows were written when the epoch was committed.
    }

    @Override
    public void write(InternalRow row) {
      // As above.
    }

    @Override
    public WriterCommitMessage commit() {
      return ArrowRunner.message(new byte[0]);
    }

    @Override
    public void abort() {}

    @Override
    public void close() {}
  }
}
