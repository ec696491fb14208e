package io.lancespark.compat;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.MapVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column whose vector belongs to the runner, which puts the next batch into it.
 *
 * <p>Spark closes the columns of a batch that it has read; a struct would lose its fields for good. And it must not see
 * that this is Arrow: Python functions would keep batches of Arrow while later ones are read, and copy rows of others.
 *
 * <p>Values of fixed width and texts are read straight from the vector's memory. One class for all types lets the JVM put
 * these reads in line; Arrow's own ones go through two virtual calls and check the bounds of every value, which Spark has
 * from the number of rows. Short decimals come as 64 bits; of 128 bits a BigDecimal would be made for each.
 */
public final class LanceColumn extends GeometryColumn {
  private final LanceColumn[] children;
  private final int numNulls;
  private final long validity;
  private final long values;
  private final long offsets;
  private final boolean longs;

  /**
   * A column of the type {@code type}; its decimals may come as 64 bits each. For a type of pyspark.ml {@code dataType()}
   * is the struct that it is stored as.
   */
  public LanceColumn(ValueVector arrow, DataType type) {
    super(arrow, type);
    this.numNulls = vector.numNulls();
    boolean empty = arrow.getValueCount() == 0;
    boolean fixed = arrow instanceof BaseFixedWidthVector && !empty;
    boolean text = arrow instanceof VarCharVector && !empty;
    boolean list = arrow instanceof ListVector && !empty;
    boolean direct = fixed || text || list;
    this.validity = direct && numNulls > 0 ? arrow.getValidityBuffer().memoryAddress() : 0;
    this.values = fixed || text ? arrow.getDataBuffer().memoryAddress() : 0;
    this.offsets = text || list ? arrow.getOffsetBuffer().memoryAddress() : 0;
    this.longs = arrow instanceof BigIntVector;
    if (list && arrow instanceof MapVector map) {
      // Not by Spark's own column: that one fails where code reads a value before it asks whether it is null.
      StructVector pairs = (StructVector) map.getDataVector();
      MapType types = (MapType) dataType();
      this.children =
          new LanceColumn[] {
            new LanceColumn(pairs.getVectorById(0), types.keyType()),
            new LanceColumn(pairs.getVectorById(1), types.valueType())
          };
    } else if (list) {
      this.children = new LanceColumn[] {new LanceColumn(((ListVector) arrow).getDataVector(), ((ArrayType) dataType()).elementType())};
    } else if (arrow instanceof StructVector struct && dataType() instanceof StructType types) {
      this.children = new LanceColumn[struct.size()];
      for (int index = 0; index < children.length; index++) {
        children[index] = new LanceColumn(struct.getVectorById(index), types.apply(index).dataType());
      }
    } else {
      this.children = null;
    }
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return numNulls > 0;
  }

  @Override
  public int numNulls() {
    return numNulls;
  }

  @Override
  public boolean isNullAt(int row) {
    if (numNulls == 0) {
      return false;
    }
    return validity == 0 ? vector.isNullAt(row) : !bit(validity, row);
  }

  private static boolean bit(long address, int row) {
    return (Platform.getByte(null, address + (row >> 3)) >> (row & 7) & 1) != 0;
  }

  @Override
  public boolean getBoolean(int row) {
    return bit(values, row);
  }

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, values + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, values + ((long) row << 1));
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, values + ((long) row << 2));
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, values + ((long) row << 3));
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, values + ((long) row << 2));
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, values + ((long) row << 3));
  }

  @Override
  public ColumnarArray getArray(int row) {
    if (offsets == 0) {
      return vector.getArray(row);
    }
    int start = offset(row);
    return new ColumnarArray(children[0], start, offset(row + 1) - start);
  }

  private int offset(int row) {
    return Platform.getInt(null, offsets + ((long) row << 2));
  }

  @Override
  public ColumnarMap getMap(int row) {
    if (offsets == 0) {
      return vector.getMap(row);
    }
    int start = offset(row);
    return new ColumnarMap(children[0], children[1], start, offset(row + 1) - start);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (longs) {
      return isNullAt(row) ? null : Decimal.createUnsafe(getLong(row), precision, scale);
    }
    return vector.getDecimal(row, precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (offsets == 0 || isNullAt(row)) {
      return vector.getUTF8String(row);
    }
    int start = offset(row);
    return UTF8String.fromAddress(null, values + start, offset(row + 1) - start);
  }

  @Override
  public byte[] getBinary(int row) {
    return vector.getBinary(row);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children == null ? vector.getChild(ordinal) : children[ordinal];
  }
}
