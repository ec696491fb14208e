package io.lancespark.compat.optimizer;

import io.lancespark.compat.SessionConf;
import io.lancespark.python.LanceException;

/** Session settings that disable optimizer rules. */
final class Settings {
  static final String DYNAMIC_PRUNING = "spark.sql.lance.joinFilters.enabled";
  static final String MERGE_PRUNING = "spark.sql.lance.mergeKeys.enabled";
  static final String COALESCE_TASKS = "spark.sql.lance.coalesceTasks.enabled";
  static final String BINARY_RANGES = "spark.sql.lance.binaryRanges.enabled";
  static final String LOCAL_RESULTS = "spark.sql.lance.localResults.enabled";
  static final String VARIANT_PATHS = "spark.sql.lance.variantPaths.enabled";

  private Settings() {}

  /** The value of a boolean setting whose default is true. */
  static boolean isEnabled(String name) {
    String value = SessionConf.get(name, "true");
    if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
      throw LanceException.invalid(name + " is '" + value + "'; set it to true or false");
    }
    return Boolean.parseBoolean(value);
  }
}
