package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.types.DataType;

/** A {@code variant_get} that Spark hands to sources: the value at {@code steps} of {@code child}, cast to a type. */
public record VariantExtraction(Expression child, List<String> steps, DataType type) {
  /** Returns null: Spark hands none to sources before 4.3. */
  public static VariantExtraction of(Expression expression) {
    return null;
  }
}
