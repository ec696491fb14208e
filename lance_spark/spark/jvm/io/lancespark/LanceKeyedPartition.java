package io.lancespark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;

/** The work of one task whose rows all have one key. */
record LanceKeyedPartition(byte[] work, boolean isInline, InternalRow partitionKey) implements HasPartitionKey, LanceWork {}
