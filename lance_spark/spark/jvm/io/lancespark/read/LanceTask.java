package io.lancespark.read;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** The work of one task. */
public interface LanceTask extends InputPartition {
  /** What Python is to do, as it described that; or the rows, each item an Arrow stream. */
  List<byte[]> work();

  /** Whether it is the rows: then the task needs no Python. */
  boolean isInline();
}
