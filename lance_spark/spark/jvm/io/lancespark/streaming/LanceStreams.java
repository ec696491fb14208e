package io.lancespark.streaming;

/**
 * Who asks for the table of a path. Spark's session catalog and its streaming queries call a source in the same way, and
 * only the first ones want a missing table to be made at once.
 */
public final class LanceStreams {
  private static final String READER = ".DataStreamReader";
  private static final String CONTINUOUS = ".ContinuousExecution";
  private static final String WRITER = ".DataStreamWriter";
  private static final String SESSION_CATALOG = ".V2SessionCatalog";

  private LanceStreams() {}

  /**
   * Whether this thread is about to start a streaming query over a path, or to make the DataFrame of one; not for a
   * table by name, for which the session catalog asks.
   */
  public static boolean isStarting() {
    return (isIn(READER) || isWriting()) && !isIn(SESSION_CATALOG);
  }

  /** Whether it is about to start a streaming query, whose sink is asked for. */
  public static boolean isWriting() {
    return isIn(WRITER);
  }

  /**
   * Passes if the query of this thread is no continuous one.
   *
   * @throws UnsupportedOperationException it is
   */
  public static void refuseContinuous() {
    if (isIn(CONTINUOUS)) {
      throw new UnsupportedOperationException(
          "Lance tables do not take continuous processing; use a micro-batch trigger such as processingTime or "
              + "availableNow");
    }
  }

  private static boolean isIn(String name) {
    return StackWalker.getInstance()
        .walk(frames -> frames.anyMatch(frame -> frame.getClassName().endsWith(name)));
  }
}
