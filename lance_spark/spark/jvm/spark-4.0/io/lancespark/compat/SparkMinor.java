package io.lancespark.compat;

/** The minor version of Spark that these classes are for. */
public final class SparkMinor {
  public static final String NAME = "4.0";

  private SparkMinor() {}
}
