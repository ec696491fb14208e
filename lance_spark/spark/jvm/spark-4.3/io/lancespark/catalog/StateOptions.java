package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Options that choose the state of a table by name: Spark passes them to catalogs, so none is left to check. */
final class StateOptions {
  private StateOptions() {}

  static void check(JsonNode handle, CaseInsensitiveStringMap options) {}
}
