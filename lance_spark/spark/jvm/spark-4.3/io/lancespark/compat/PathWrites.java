package io.lancespark.compat;

/** Writes by {@code save(path)}. */
public final class PathWrites {
  private PathWrites() {}

  /** Returns false: Spark says that it loads the table to write to it. */
  public static boolean isLoading() {
    return false;
  }
}
