package io.lancespark.read;

import java.util.List;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The work of one task that has no key. */
public record LanceInputPartition(List<byte[]> work, boolean isInline) implements LanceTask {
  /** The row that carries the work into Python. */
  public static final StructType SCHEMA = new StructType().add("work", DataTypes.BinaryType);
}
