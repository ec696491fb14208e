package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution;
import org.apache.spark.sql.connector.catalog.TableChange;

/** The interfaces of tables that this Spark has. */
public interface SparkTable extends CheckedTable, SupportsSchemaEvolution {
  @Override
  default boolean supportsColumnChange(TableChange.ColumnChange change) {
    return canEvolve(change);
  }
}
