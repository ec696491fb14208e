package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.VariantGet;
import org.apache.spark.sql.types.DataType;

/** A {@code variant_get} that Spark hands to sources: the value at {@code steps} of {@code child}, cast to a type. */
public record VariantExtraction(Expression child, List<String> steps, DataType type) {
  /** The extraction that an expression is; null for other expressions. */
  public static VariantExtraction of(Expression expression) {
    return expression instanceof VariantGet get
        ? new VariantExtraction(get.child(), VariantPaths.steps(get.path()), get.targetType())
        : null;
  }
}
