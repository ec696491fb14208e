package io.lancespark.optimizer;

import org.apache.spark.sql.internal.SQLConf;

/** Settings of the session that turn optimizer rules off. */
final class Settings {
  static final String DYNAMIC_PRUNING = "spark.sql.lance.joinFilters.enabled";
  static final String COALESCE_TASKS = "spark.sql.lance.coalesceTasks.enabled";

  private Settings() {}

  /** The value of a setting that is true unless the session says otherwise. */
  static boolean isEnabled(SQLConf conf, String name) {
    String value = conf.getConfString(name, "true");
    if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
      throw new IllegalArgumentException(name + " is '" + value + "'; set it to true or false");
    }
    return Boolean.parseBoolean(value);
  }
}
