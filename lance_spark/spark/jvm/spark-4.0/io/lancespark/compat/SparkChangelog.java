package io.lancespark.compat;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.types.StructType;

/** A changelog as a table: the interface of changelogs is in Spark from 4.2 on. */
public interface SparkChangelog extends SupportsRead {
  boolean containsCarryoverRows();

  boolean containsIntermediateChanges();

  boolean representsUpdateAsDeleteAndInsert();

  /** Abstract in Spark 4.0; later versions ask for the columns. */
  @Override
  default StructType schema() {
    return Types.ofColumns(columns());
  }

  @Override
  default Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }
}
