package io.lancespark.python;

import org.apache.spark.package$;

/** Which Spark the connector is for. */
public final class LanceSpark {
  /** Its connector interfaces and its internals change with every minor version. */
  static final String MINOR = "4.3";

  private LanceSpark() {}

  /** Passes on that Spark. Whoever is loaded by name asks first, before a missing class of Spark makes an error of its own. */
  public static void check() {
    String version = package$.MODULE$.SPARK_VERSION();
    if (!version.startsWith(MINOR + ".")) {
      throw new UnsupportedOperationException(
          "the Lance connector is for Spark " + MINOR + ", this is Spark " + version
              + ". Take its jar, extensions and catalogs out of the settings; spark.read.format(\"lance\") works without them");
    }
  }
}
