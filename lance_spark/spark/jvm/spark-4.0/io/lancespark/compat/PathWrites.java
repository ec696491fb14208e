package io.lancespark.compat;

/** Writes by {@code save(path)}, for which Spark loads the table as if it was read before 4.3. */
public final class PathWrites {
  private static final String OURS = "io.lancespark.";
  private static final String WRITER = ".DataFrameWriter";

  private PathWrites() {}

  /** Whether the writer itself asks for a table. While its statement runs, Spark loads the tables that it reads. */
  public static boolean isLoading() {
    return StackWalker.getInstance()
        .walk(frames -> frames.map(frame -> frame.getClassName()).filter(name -> !name.startsWith(OURS)).findFirst())
        .filter(name -> name.endsWith(WRITER))
        .isPresent();
  }
}
