package io.lancespark.write;

import io.lancespark.compat.ArrowRunner;
import io.lancespark.compat.Rows;
import io.lancespark.python.LanceRunner;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Hands the changes of a task to Python.
 *
 * <p>Spark pushes changes one by one, Python pulls batches: a second thread pulls, and waits for the rows of the first.
 * It starts with the first change, so that a task without any does not cost a Python worker.
 */
public final class LanceDeltaWriter implements DeltaWriter<InternalRow> {
  private static final byte DELETE = 0;
  private static final byte UPDATE = 1;
  private static final byte INSERT = 2;

  private final LanceRunner runner;
  private final Rows.Copier ids;
  private final Rows.Copier rows;
  private LanceChunks<InternalRow> chunks;
  private Thread puller;
  private volatile byte[] message = new byte[0];

  LanceDeltaWriter(LanceRunner runner, StructType ids, StructType rows) {
    this.runner = runner;
    this.ids = new Rows.Copier(ids);
    this.rows = new Rows.Copier(rows);
  }

  /** The schema of changes as Python gets them: the kind, the id, null of a new row, and the row, null if it is deleted. */
  static StructType schema(StructType ids, StructType rows) {
    return new StructType().add("kind", DataTypes.ByteType, false).add("id", ids).add("row", rows);
  }

  @Override
  public void delete(InternalRow metadata, InternalRow id) throws IOException {
    put(DELETE, ids.copy(id), null);
  }

  @Override
  public void update(InternalRow metadata, InternalRow id, InternalRow row) throws IOException {
    put(UPDATE, ids.copy(id), rows.copy(row));
  }

  @Override
  public void insert(InternalRow row) throws IOException {
    put(INSERT, null, rows.copy(row));
  }

  private void put(byte kind, InternalRow id, InternalRow row) throws IOException {
    if (puller == null) {
      start();
    }
    long size = Rows.sizeInBytes(id) + Rows.sizeInBytes(row);
    chunks.put(new Rows.Sized(size, kind, id, row), size);
  }

  private void start() {
    LanceChunks<InternalRow> source = new LanceChunks<>();
    chunks = source;
    puller = LanceRunner.inTask("lance delta writer", () -> pull(source));
  }

  private void pull(LanceChunks<InternalRow> source) {
    try {
      for (byte[] result : runner.messages(source)) {
        message = result;
      }
      source.drained();
    } catch (Throwable error) {
      source.fail(error);
    }
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    if (puller != null) {
      chunks.finish();
      join();
      chunks.check();
    }
    return ArrowRunner.message(message);
  }

  @Override
  public void abort() throws IOException {
    // Python removes the files of a task that fails, the driver those of killed tasks.
    close();
  }

  @Override
  public void close() throws IOException {
    if (puller != null && puller.isAlive()) {
      chunks.cancel();
      puller.interrupt();
      join();
    }
  }

  private void join() throws IOException {
    try {
      puller.join();
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw new IOException("the task was killed", interrupt);
    }
  }
}
