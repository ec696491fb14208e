package io.lancespark.compat;

import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.trees.Origin;

/** An error with a condition and a text of our own, which Spark has no template of. */
public abstract class SparkError extends ConditionError {
  private static final long serialVersionUID = 1L;

  protected SparkError(String message, String condition, String sqlState, String text) {
    super(message, condition, sqlState, text);
  }

  /**
   * The same error as one of Spark's own classes, for a task: the driver thread that deserializes it does not see jars
   * that a session has added. Spark's scheduler rethrows it unchanged because it has a condition. It has no stack
   * trace, because Spark would log it for every attempt of the task.
   */
  protected static AnalysisException ofSpark(String message, String condition, String sqlState, String text) {
    AnalysisException error = ConditionError.spark(message, condition, sqlState, text);
    error.setStackTrace(new StackTraceElement[0]);
    return error;
  }

  /** This error: Spark's copy with a position has a query context, and Python then asks Spark for our condition's text. */
  @Override
  public AnalysisException withPosition(Origin origin) {
    return this;
  }

  /** Throws {@code error} unchecked: Spark's interfaces do not declare the errors that Spark throws. */
  public static RuntimeException sneaky(Throwable error) {
    throw SparkError.<RuntimeException>raise(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E raise(Throwable error) throws E {
    throw (E) error;
  }
}
