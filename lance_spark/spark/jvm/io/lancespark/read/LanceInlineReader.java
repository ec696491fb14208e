package io.lancespark.read;

import io.lancespark.compat.LanceColumn;
import io.lancespark.python.LanceException;
import io.lancespark.python.LanceMetrics;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads rows that came with the plan, as Arrow streams; an empty one has none. */
public final class LanceInlineReader implements PartitionReader<ColumnarBatch> {
  private final Iterator<byte[]> streams;
  private final StructType columns;
  private final RootAllocator allocator = new RootAllocator();
  private ArrowStreamReader current;
  private long rowsRead;
  private long batchesRead;

  LanceInlineReader(List<byte[]> streams, StructType columns) {
    this.streams = streams.iterator();
    this.columns = columns;
  }

  /** What {@code change} makes of each row of the streams. */
  static LanceStreamScan.Rows rows(
      List<byte[]> streams, StructType columns, UnaryOperator<InternalRow> change) {
    List<InternalRow> rows = new ArrayList<>();
    try (LanceInlineReader reader = new LanceInlineReader(streams, columns)) {
      while (reader.next()) {
        for (Iterator<InternalRow> batch = reader.get().rowIterator(); batch.hasNext(); ) {
          rows.add(change.apply(batch.next()));
        }
      }
      return new LanceStreamScan.Rows(rows, reader.batchesRead);
    } catch (IOException error) {
      throw LanceException.sneaky(error);
    }
  }

  @Override
  public boolean next() throws IOException {
    while (current == null || !current.loadNextBatch()) {
      if (!streams.hasNext()) {
        return false;
      }
      closeCurrent();
      byte[] stream = streams.next();
      current = stream.length == 0 ? null : new ArrowStreamReader(new ByteArrayInputStream(stream), allocator);
    }
    rowsRead += current.getVectorSchemaRoot().getRowCount();
    batchesRead++;
    return true;
  }

  @Override
  public ColumnarBatch get() {
    try {
      VectorSchemaRoot batch = current.getVectorSchemaRoot();
      // Zero-column rows carry a dummy column.
      ColumnVector[] vectors = new ColumnVector[columns.length()];
      for (int index = 0; index < vectors.length; index++) {
        FieldVector vector = batch.getVector(index);
        vectors[index] = new LanceColumn(vector, columns.apply(index).dataType());
      }
      return new ColumnarBatch(vectors, batch.getRowCount());
    } catch (IOException error) {
      throw LanceException.sneaky(error);
    }
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return new CustomTaskMetric[] {
      new LanceMetrics.Value("rows_read", rowsRead), new LanceMetrics.Value("batches_read", batchesRead)
    };
  }

  @Override
  public void close() throws IOException {
    closeCurrent();
    allocator.close();
  }

  private void closeCurrent() throws IOException {
    if (current != null) {
      current.close();
      current = null;
    }
  }
}
