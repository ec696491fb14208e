package io.lancespark.write;

import io.lancespark.python.LanceRunner;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** One change as Python gets it: what happens, to which row, and what the row becomes. */
public final class LanceDeltaRow extends GenericInternalRow implements LanceRunner.Sized {
  private static final long serialVersionUID = 1L;
  static final byte DELETE = 0;
  static final byte UPDATE = 1;
  static final byte INSERT = 2;

  private final long sizeInBytes;

  /**
   * A change.
   *
   * @param id null for a new row
   * @param row null for a row that is only deleted
   */
  LanceDeltaRow(byte kind, InternalRow id, InternalRow row, long sizeInBytes) {
    super(new Object[] {kind, id, row});
    this.sizeInBytes = sizeInBytes;
  }

  static StructType schema(StructType ids, StructType rows) {
    return new StructType().add("kind", DataTypes.ByteType, false).add("id", ids).add("row", rows);
  }

  @Override
  public long sizeInBytes() {
    return sizeInBytes;
  }
}
