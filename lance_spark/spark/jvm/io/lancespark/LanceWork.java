package io.lancespark;

import org.apache.spark.sql.connector.read.InputPartition;

/** The work of one task, as Python described it. */
interface LanceWork extends InputPartition {
  byte[] work();
}
