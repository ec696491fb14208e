package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** A table with CHECK constraints for Spark, which asks for them from 4.1 on. */
public interface CheckedTable extends BaseTable {
  /** Spark checks the rows of its statements by them. */
  @Override
  default Constraint[] constraints() {
    return Constraints.checks(checks());
  }
}
