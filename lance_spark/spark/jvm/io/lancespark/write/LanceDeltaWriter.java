package io.lancespark.write;

import io.lancespark.python.LanceRunner;
import java.io.IOException;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Hands the changes of a task to Python.
 *
 * <p>Spark pushes changes one by one, Python pulls batches: a second thread pulls, and waits for the rows of the first.
 * It starts with the first change, so that a task without any does not cost a Python worker.
 */
public final class LanceDeltaWriter implements DeltaWriter<InternalRow> {
  private final LanceRunner runner;
  private final LanceRunner.Copier ids;
  private final LanceRunner.Copier rows;
  private LanceChunks<InternalRow> chunks;
  private Thread puller;
  private volatile byte[] message = new byte[0];

  LanceDeltaWriter(LanceRunner runner, StructType ids, StructType rows) {
    this.runner = runner;
    this.ids = new LanceRunner.Copier(ids);
    this.rows = new LanceRunner.Copier(rows);
  }

  @Override
  public void delete(InternalRow metadata, InternalRow id) throws IOException {
    put(LanceDeltaRow.DELETE, ids.copy(id), null);
  }

  @Override
  public void update(InternalRow metadata, InternalRow id, InternalRow row) throws IOException {
    put(LanceDeltaRow.UPDATE, ids.copy(id), rows.copy(row));
  }

  @Override
  public void insert(InternalRow row) throws IOException {
    put(LanceDeltaRow.INSERT, null, rows.copy(row));
  }

  private void put(byte kind, UnsafeRow id, UnsafeRow row) throws IOException {
    if (puller == null) {
      start();
    }
    long size = (id == null ? 0 : id.getSizeInBytes()) + (row == null ? 0 : row.getSizeInBytes());
    chunks.put(new LanceDeltaRow(kind, id, row, size), size);
  }

  private void start() {
    LanceChunks<InternalRow> source = new LanceChunks<>();
    chunks = source;
    puller = LanceRunner.inTask("lance delta writer", () -> pull(source));
  }

  private void pull(LanceChunks<InternalRow> source) {
    try {
      Iterator<ColumnarBatch> told = runner.run(source);
      while (told.hasNext()) {
        ColumnarBatch batch = told.next();
        for (int row = 0; row < batch.numRows(); row++) {
          message = batch.column(0).getBinary(row);
        }
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
    return LanceRunner.message(message);
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
