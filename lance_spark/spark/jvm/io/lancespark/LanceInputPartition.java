package io.lancespark;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The work of one task, as Python described it. */
record LanceInputPartition(byte[] work) implements LanceWork {
  /** The row that carries the work into Python. */
  static final StructType SCHEMA = new StructType().add("work", DataTypes.BinaryType);
}
