package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;

/** The interfaces of tables that every Spark has. */
public interface BaseTable
    extends SupportsRead,
        SupportsWrite,
        SupportsMetadataColumns,
        SupportsDeleteV2,
        SupportsRowLevelOperations,
        ReportsSinkMetrics {
  /** The CHECK constraints, by which Spark checks rows from 4.1 on. */
  List<Constraints.Declared> checks();

  /** Whether a write may change a column like this. */
  boolean canEvolve(TableChange.ColumnChange change);
}
