package io.lancespark.python;

import org.apache.spark.package$;

/** The Spark version that the connector supports. */
public final class LanceSpark {
  /** Spark's connector interfaces and internals change with every minor version. */
  static final String MINOR = "4.3";

  private LanceSpark() {}

  /**
   * Fails on other versions. Classes that Spark loads by name call this first, before a missing Spark class raises a
   * less helpful error.
   */
  public static void check() {
    String version = package$.MODULE$.SPARK_VERSION();
    if (!version.startsWith(MINOR + ".")) {
      throw new UnsupportedOperationException(
          "the Lance connector is for Spark " + MINOR + ", this is Spark " + version
              + ". Take its jar, extensions and catalogs out of the settings; spark.read.format(\"lance\") works without them");
    }
  }
}
