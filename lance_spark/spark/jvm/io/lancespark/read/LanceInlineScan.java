package io.lancespark.read;

import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Scan;

/** A scan whose rows may come with its plan, read by the planner process. */
public interface LanceInlineScan extends Scan {
  /** Whether the rows came with the plan. */
  boolean isInline();

  /** What {@code change} makes of each row that came with the plan. */
  Rows rows(UnaryOperator<InternalRow> change);

  /** Rows, and in how many batches they came. */
  record Rows(List<InternalRow> rows, long batches) {}
}
