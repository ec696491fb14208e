package io.lancespark.compat;

import org.apache.spark.sql.catalyst.util.STUtils;
import org.apache.spark.unsafe.types.BinaryView;

/** Values of GEOMETRY and GEOGRAPHY in Spark's internal form. */
public final class Geometries {
  private Geometries() {}

  /** The well-known binary of a value; null if it is no geometry. */
  public static byte[] binary(Object value) {
    return value instanceof BinaryView geometry ? STUtils.stGeomAsBinary(geometry) : null;
  }

  /** The value of a well-known binary. */
  public static Object ofBinary(byte[] binary) {
    return STUtils.stGeomFromWKB(binary);
  }
}
