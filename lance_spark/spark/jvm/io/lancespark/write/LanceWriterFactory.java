package io.lancespark.write;

import io.lancespark.compat.ArrowRunner;
import io.lancespark.python.LanceRunner;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Writes the rows of a task in Python. */
public record LanceWriterFactory(LanceRunner runner, String description) implements DataWriterFactory {
  /** For Spark's log. */
  @Override
  public String toString() {
    return description;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    return new Writer(runner);
  }

  private static final class Writer implements DataWriter<InternalRow> {
    private final LanceRunner runner;
    private byte[] message = new byte[0];

    Writer(LanceRunner runner) {
      this.runner = runner;
    }

    @Override
    public void writeAll(Iterator<InternalRow> rows) {
      // A Python worker for a partition without rows would cost more than everything else.
      if (!rows.hasNext()) {
        return;
      }
      for (byte[] result : runner.messages(rows)) {
        message = result;
      }
    }

    @Override
    public void write(InternalRow row) {
      throw new UnsupportedOperationException("Spark hands over the rows of a task at once");
    }

    @Override
    public WriterCommitMessage commit() {
      return ArrowRunner.message(message);
    }

    @Override
    public void abort() {
      // A task that fails removes its files itself, the driver removes those of killed tasks.
    }

    @Override
    public void close() {}
  }
}
