package io.lancespark.compat.optimizer;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.VariantPaths;
import io.lancespark.python.Json;
import io.lancespark.read.LanceScan;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.variant.VariantGet;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Lets a scan return only the members of variants that a query uses.
 *
 * <p>If all uses of a column are {@code variant_get} with constant paths ({@code v:a.b} is one), the scan returns smaller
 * variants, which have the same values at these paths. Spark extracts and casts them as it does without the rule.
 */
public final class LanceVariantPaths extends LanceValueParts<Set<String>> {
  @Override
  String setting() {
    return Settings.VARIANT_PATHS;
  }

  @Override
  Use<Set<String>> use(Expression expression) {
    if (expression instanceof VariantGet get
        && get.child() instanceof AttributeReference column
        && DataTypes.VariantType.equals(column.dataType())
        && get.path() instanceof Literal path
        && path.value() instanceof UTF8String text) {
      return VariantPaths.steps(text.toString()).isEmpty() ? null : new Use<>(column.exprId(), Set.of(text.toString()));
    }
    return null;
  }

  @Override
  Set<String> union(Set<String> one, Set<String> other) {
    Set<String> all = new TreeSet<>(one);
    all.addAll(other);
    return all;
  }

  @Override
  Expression over(Expression use, Set<String> parts) {
    return use;
  }

  @Override
  boolean takes(LanceScan scan) {
    return scan.takes(LanceScan.VARIANT_PATHS);
  }

  @Override
  LanceScan narrowed(LanceScan scan, Map<String, Set<String>> parts) {
    ObjectNode paths = Json.object();
    parts.forEach(
        (name, texts) -> {
          ArrayNode ofColumn = paths.putArray(name);
          texts.forEach(text -> ofColumn.add(Json.strings(VariantPaths.steps(text).toArray(new String[0]))));
        });
    return scan.with(LanceScan.VARIANT_PATHS, paths);
  }
}
