package io.lancespark.compat;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The values of GEOMETRY and GEOGRAPHY of a column over Arrow, which Spark has from 4.1 on. */
abstract class GeometryColumn extends ColumnVector {
  protected final ArrowColumnVector vector;

  GeometryColumn(ValueVector arrow, DataType type) {
    super(type);
    this.vector = new ArrowColumnVector(arrow);
  }
}
