package io.lancespark.write;

import io.lancespark.python.LanceRunner;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.types.StructType;

/** Makes the writers of the tasks. */
public final class LanceDeltaWriterFactory implements DeltaWriterFactory {
  private static final long serialVersionUID = 1L;
  private final LanceRunner runner;
  private final StructType ids;
  private final StructType rows;
  private final String description;

  LanceDeltaWriterFactory(LanceRunner runner, StructType ids, StructType rows, String description) {
    this.runner = runner;
    this.ids = ids;
    this.rows = rows;
    this.description = description;
  }

  @Override
  public String toString() {
    return description;
  }

  @Override
  public DeltaWriter<InternalRow> createWriter(int partitionId, long taskId) {
    return new LanceDeltaWriter(runner, ids, rows);
  }
}
