package io.lancespark.python;

import io.lancespark.compat.SparkMinor;
import java.lang.module.ModuleDescriptor.Version;
import java.util.List;
import org.apache.spark.package$;

/** The versions of Spark that the connector supports. */
public final class LanceSpark {
  /** Each has a jar of its own: Spark's connector interfaces and internals change with every minor version. */
  private static final List<String> MINORS = List.of("4.0", "4.1", "4.2", "4.3");

  private LanceSpark() {}

  /**
   * Fails on another minor version than that of this jar. Classes that Spark loads by name call this first, before a
   * missing Spark class raises a less helpful error.
   */
  public static void check() {
    String version = package$.MODULE$.SPARK_VERSION();
    if (!version.startsWith(SparkMinor.NAME + ".")) {
      throw new UnsupportedOperationException(mismatch(version));
    }
  }

  /** Whether this jar is for a newer minor version, and some of its classes may need what this Spark does not have. */
  public static boolean isForNewer() {
    return Version.parse(package$.MODULE$.SPARK_VERSION()).compareTo(Version.parse(SparkMinor.NAME)) < 0;
  }

  private static String mismatch(String version) {
    for (String minor : MINORS) {
      if (version.startsWith(minor + ".")) {
        return "this jar of the Lance connector is for Spark " + SparkMinor.NAME + ", this is Spark " + version
            + "; put lance-spark-" + minor + ".jar on the class path in its place, whose path"
            + " python -m lance_spark.spark.jvm.build prints";
      }
    }
    return "the Lance connector supports Spark " + MINORS.get(0) + " to " + MINORS.get(MINORS.size() - 1)
        + ", this is Spark " + version
        + ". Take its jar, extensions and catalogs out of the settings;"
        + " spark.read.format(\"lance\") works without them";
  }
}
