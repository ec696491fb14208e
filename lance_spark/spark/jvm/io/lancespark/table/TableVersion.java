package io.lancespark.table;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.catalog.Table;

/** A pinned version of a Lance table, or a view of it such as its history. */
public interface TableVersion extends Table {
  /** Identifies the version in requests; opaque to Java but for the place, the URI and the branch of the table. */
  JsonNode handle();

  /** Whether a query has chosen the version, so that it never reads a newer one. */
  boolean isPinned();
}
