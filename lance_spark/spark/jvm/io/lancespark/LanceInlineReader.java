package io.lancespark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads rows that came with the plan, as an Arrow stream. */
final class LanceInlineReader implements PartitionReader<ColumnarBatch> {
  private final StructType columns;
  private final RootAllocator allocator = new RootAllocator();
  /** None if there are no rows. */
  private final ArrowStreamReader stream;
  private long rowsRead;
  private long batchesRead;

  LanceInlineReader(byte[] stream, StructType columns) {
    this.columns = columns;
    this.stream = stream.length == 0 ? null : new ArrowStreamReader(new ByteArrayInputStream(stream), allocator);
  }

  @Override
  public boolean next() throws IOException {
    if (stream == null || !stream.loadNextBatch()) {
      return false;
    }
    rowsRead += stream.getVectorSchemaRoot().getRowCount();
    batchesRead++;
    return true;
  }

  @Override
  public ColumnarBatch get() {
    try {
      VectorSchemaRoot batch = stream.getVectorSchemaRoot();
      // Rows without columns come with one that is none of them.
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
    if (stream != null) {
      stream.close();
    }
    allocator.close();
  }
}
