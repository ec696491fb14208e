package io.lancespark.compat;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map$;

/** An error with a condition that Spark has no template of. */
public abstract class ConditionError extends AnalysisException {
  private static final long serialVersionUID = 1L;

  private final String sqlState;

  protected ConditionError(String message, String condition, String sqlState, String text) {
    super(
        message,
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.apply(condition),
        Map$.MODULE$.empty(),
        new QueryContext[0]);
    this.sqlState = sqlState;
  }

  /**
   * The same error as one of Spark's own classes, for a task: the driver thread that deserializes it does not see jars
   * that a session has added. Spark's scheduler rethrows it unchanged because it has a condition. It has no stack
   * trace, because Spark would log it for every attempt of the task.
   */
  protected static AnalysisException ofSpark(String message, String condition, String sqlState, String text) {
    AnalysisException error =
        new AnalysisException(
            message,
            Option.empty(),
            Option.empty(),
            Option.empty(),
            Option.apply(condition),
            Map$.MODULE$.empty(),
            new QueryContext[0]);
    error.setStackTrace(new StackTraceElement[0]);
    return error;
  }

  /** Spark takes it from its own templates. */
  @Override
  public String getSqlState() {
    return sqlState;
  }
}
