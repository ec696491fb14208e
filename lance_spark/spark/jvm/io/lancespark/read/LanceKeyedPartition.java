package io.lancespark.read;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;

/** The work of one task whose rows all have one key. */
public record LanceKeyedPartition(List<byte[]> work, boolean isInline, InternalRow partitionKey)
    implements HasPartitionKey, LanceTask {}
