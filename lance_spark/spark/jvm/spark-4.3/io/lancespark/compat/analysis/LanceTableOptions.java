package io.lancespark.compat.analysis;

import org.apache.spark.sql.SparkSessionExtensions;

/** Options that choose the state of a table by name: Spark passes them to catalogs, so no rule is needed. */
final class LanceTableOptions {
  private LanceTableOptions() {}

  static void inject(SparkSessionExtensions extensions) {}
}
