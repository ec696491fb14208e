package io.lancespark.compat;

import org.apache.spark.sql.catalyst.util.STUtils;
import org.apache.spark.unsafe.types.BinaryView;

/** Values of GEOMETRY and GEOGRAPHY in Spark's internal form. */
public final class Geometries {
  private Geometries() {}

  public static boolean isValue(Object value) {
    return value instanceof BinaryView;
  }

  /** The well-known binary of a value. */
  public static byte[] toBinary(Object value) {
    return STUtils.stGeomAsBinary((BinaryView) value);
  }

  /** The value of a well-known binary. */
  public static Object ofBinary(byte[] binary) {
    return STUtils.stGeomFromWKB(binary);
  }
}
