package io.lancespark;

import java.util.List;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The work of one task that has no key. */
record LanceInputPartition(List<byte[]> work, boolean isInline) implements LanceWork {
  /** The row that carries the work into Python. */
  static final StructType SCHEMA = new StructType().add("work", DataTypes.BinaryType);
}
