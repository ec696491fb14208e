package io.lancespark.table;

import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.write.RowLevelOperation;

/** A version of a table that statements read and write; a view is not one. */
public interface WritableVersion extends TableVersion, SupportsRowLevelOperations {
  /**
   * The newest version of this table, with the same columns.
   *
   * @throws io.lancespark.python.LanceException (unchecked) if the columns have changed
   */
  WritableVersion newest();

  /** Whether both are versions of the same branch of the same table. */
  default boolean isVersionOf(WritableVersion other) {
    return handle().path("uri").equals(other.handle().path("uri"))
        && handle().path("branch").equals(other.handle().path("branch"));
  }

  /** A row-level operation on one version. */
  interface Operation extends RowLevelOperation {
    /** The same operation on another version. */
    RowLevelOperation on(WritableVersion version);
  }
}
