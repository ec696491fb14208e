package io.lancespark.compat.optimizer;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.read.LanceScan;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Substring;
import org.apache.spark.sql.types.DataTypes;

/**
 * Lets a scan return only the part of a binary column that a query uses, so that only this part of a blob is read.
 *
 * <p>If all uses of a column are {@code substring(column, position, length)} with constants, the scan returns the bytes
 * from the first to the last one that is used, and positions are moved accordingly.
 */
public final class LanceBinaryRanges extends LanceValueParts<LanceBinaryRanges.Range> {
  /** Bytes [start, stop) of a value. */
  record Range(long start, long stop) {}

  @Override
  String setting() {
    return Settings.BINARY_RANGES;
  }

  @Override
  Use<Range> use(Expression expression) {
    if (expression instanceof Substring use
        && use.str() instanceof AttributeReference column
        && DataTypes.BinaryType.equals(column.dataType())
        && use.pos() instanceof Literal position
        && position.value() instanceof Integer first
        && use.len() instanceof Literal length
        && length.value() instanceof Integer count
        && first >= 1
        && count >= 0) {
      return new Use<>(column.exprId(), new Range(first - 1L, first - 1L + count));
    }
    return null;
  }

  @Override
  Range union(Range one, Range other) {
    return new Range(Math.min(one.start(), other.start()), Math.max(one.stop(), other.stop()));
  }

  @Override
  Expression over(Expression use, Range parts) {
    Substring part = (Substring) use;
    int position = (int) (use(use).part().start() - parts.start()) + 1;
    return new Substring(part.str(), Literal$.MODULE$.apply(position), part.len());
  }

  @Override
  boolean takes(LanceScan scan) {
    return scan.takes(LanceScan.BINARY_RANGES);
  }

  @Override
  LanceScan narrowed(LanceScan scan, Map<String, Range> parts) {
    ObjectNode ranges = Json.object();
    parts.forEach((name, range) -> ranges.putArray(name).add(range.start()).add(range.stop() - range.start()));
    return scan.with(LanceScan.BINARY_RANGES, ranges);
  }
}
