package io.lancespark.compat;

import java.math.BigDecimal;
import org.apache.spark.types.variant.Variant;

/** Values of VARIANT. */
public final class Variants {
  private Variants() {}

  /** A decimal number of a variant, without zeros at its end. */
  public static BigDecimal decimal(Variant value) {
    return value.getDecimal();
  }
}
