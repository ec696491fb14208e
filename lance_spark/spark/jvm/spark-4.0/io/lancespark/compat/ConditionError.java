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

  /** An error of Spark's own class. */
  static AnalysisException spark(String message, String condition, String sqlState, String text) {
    return new AnalysisException(
        message,
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.apply(condition),
        Map$.MODULE$.empty(),
        new QueryContext[0]);
  }

  /** Spark takes it from its own templates. */
  @Override
  public String getSqlState() {
    return sqlState;
  }
}
