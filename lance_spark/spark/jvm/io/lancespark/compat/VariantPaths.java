package io.lancespark.compat;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.variant.ArrayExtraction;
import org.apache.spark.sql.catalyst.expressions.variant.ObjectExtraction;
import org.apache.spark.sql.catalyst.expressions.variant.VariantPathParser;
import org.apache.spark.sql.catalyst.expressions.variant.VariantPathSegment;
import scala.Option;

/** Paths of {@code variant_get}. */
public final class VariantPaths {
  private VariantPaths() {}

  /** The steps of a path, keys as {@code .key} and positions as {@code [1]}; none if it is invalid. */
  public static List<String> steps(String path) {
    List<String> steps = new ArrayList<>();
    Option<VariantPathSegment[]> parsed = VariantPathParser.parse(path);
    if (parsed.isDefined()) {
      for (VariantPathSegment segment : parsed.get()) {
        if (segment instanceof ObjectExtraction member) {
          steps.add("." + member.key());
        } else if (segment instanceof ArrayExtraction item) {
          steps.add("[" + item.index() + "]");
        } else {
          return List.of();
        }
      }
    }
    return steps;
  }
}
