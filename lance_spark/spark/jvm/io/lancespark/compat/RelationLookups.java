package io.lancespark.compat;

/** Lookups of the relations of queries and writes by Spark's analyzer. */
public final class RelationLookups {
  private static final String RESOLUTION = ".RelationResolution";
  private static final String METHOD = "resolveRelation";

  private RelationLookups() {}

  /**
   * Whether this thread looks up such a relation. Whoever else asks for a table, such as {@code tableExists} and
   * {@code saveAsTable}, goes on if Spark's own exception says that there is none.
   */
  public static boolean isRunning() {
    return StackWalker.getInstance()
        .walk(
            frames ->
                frames.anyMatch(
                    frame ->
                        frame.getClassName().endsWith(RESOLUTION) && frame.getMethodName().contains(METHOD)));
  }
}
