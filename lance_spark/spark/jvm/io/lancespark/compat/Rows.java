package io.lancespark.compat;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.StructType;

/** Rows, arrays and maps in Spark's internal form. */
public final class Rows {
  private Rows() {}

  public static InternalRow of(Object... values) {
    return new GenericInternalRow(values);
  }

  /** One row for each item, with the item as its only column. */
  public static List<InternalRow> ofEach(List<byte[]> items) {
    List<InternalRow> rows = new ArrayList<>(items.size());
    items.forEach(item -> rows.add(of(new Object[] {item})));
    return rows;
  }

  public static Object array(Object[] items) {
    return new GenericArrayData(items);
  }

  public static Object map(Object[] keys, Object[] values) {
    return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
  }

  /** The bytes of a row; 0 for rows that do not know their size, and for null. */
  public static long sizeInBytes(InternalRow row) {
    if (row instanceof UnsafeRow unsafe) {
      return unsafe.getSizeInBytes();
    }
    return row instanceof Sized sized ? sized.sizeInBytes() : 0;
  }

  /** A row of generic values that knows its size. */
  public static final class Sized extends GenericInternalRow {
    private static final long serialVersionUID = 1L;
    private final long sizeInBytes;

    public Sized(long sizeInBytes, Object... values) {
      super(values);
      this.sizeInBytes = sizeInBytes;
    }

    public long sizeInBytes() {
      return sizeInBytes;
    }
  }

  /** Copies rows whose buffers Spark reuses. */
  public static final class Copier {
    private final UnsafeProjection projection;

    public Copier(StructType schema) {
      this.projection = UnsafeProjection$.MODULE$.create(schema);
    }

    public InternalRow copy(InternalRow row) {
      return projection.apply(row).copy();
    }
  }
}
