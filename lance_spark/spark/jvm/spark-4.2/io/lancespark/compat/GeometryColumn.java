package io.lancespark.compat;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.BinaryView;

/** The values of GEOMETRY and GEOGRAPHY of a column over Arrow. */
abstract class GeometryColumn extends ColumnVector {
  protected final ArrowColumnVector vector;

  GeometryColumn(ValueVector arrow, DataType type) {
    super(type);
    this.vector = new ArrowColumnVector(arrow);
  }

  /** Arrow's column checks the bytes; its vector is a struct. */
  @Override
  public BinaryView getBinaryView(int row) {
    return vector.getBinaryView(row);
  }
}
