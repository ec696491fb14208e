package io.lancespark.read;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.connector.read.InputPartition;

/** The work of one task. */
public interface LanceTask extends InputPartition {
  /** Descriptions of the work, for Python; or the rows, each item an Arrow stream. */
  List<byte[]> work();

  /** Whether it is the rows: then the task needs no Python. */
  boolean isInline();

  /** The work of a task that has no key. */
  record Plain(List<byte[]> work, boolean isInline) implements LanceTask {}

  /** The work of a task whose rows all have one key. */
  record Keyed(List<byte[]> work, boolean isInline, InternalRow partitionKey) implements HasPartitionKey, LanceTask {}
}
