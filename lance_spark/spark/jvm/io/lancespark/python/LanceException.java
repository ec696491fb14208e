package io.lancespark.python;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map$;

/** An error that Python raised on purpose: its text, with an error condition and an SQLSTATE, without a traceback. */
public final class LanceException extends AnalysisException {
  private static final long serialVersionUID = 1L;
  private final String kind;

  private LanceException(String kind, String condition, String sqlState, String text) {
    super(
        message(condition, sqlState, text),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.apply(condition),
        Map$.MODULE$.empty(),
        new QueryContext[0],
        Option.apply(sqlState),
        Option.apply(text));
    this.kind = kind;
  }

  private static String message(String condition, String sqlState, String text) {
    return "[" + condition + "] " + text + " SQLSTATE: " + sqlState;
  }

  static LanceException of(JsonNode error) {
    return new LanceException(
        error.get("kind").asText(),
        error.get("condition").asText(),
        error.get("sql_state").asText(),
        error.get("message").asText());
  }

  /**
   * The same error raised in a task, of a class that every executor and driver has: the thread that reads it on the driver
   * does not see jars that a session has added. Spark's scheduler raises it as it is, because it has a condition. It has
   * no stack trace, which Spark would log for every attempt of the task.
   */
  static AnalysisException inTask(JsonNode error) {
    String condition = error.get("condition").asText();
    String sqlState = error.get("sql_state").asText();
    String text = error.get("message").asText();
    AnalysisException exception =
        new AnalysisException(
            message(condition, sqlState, text),
            Option.empty(),
            Option.empty(),
            Option.empty(),
            Option.apply(condition),
            Map$.MODULE$.empty(),
            new QueryContext[0],
            Option.apply(sqlState),
            Option.apply(text));
    exception.setStackTrace(new StackTraceElement[0]);
    return exception;
  }

  private LanceException(LanceException error, String text) {
    super(
        text,
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.apply(error.getCondition()),
        Map$.MODULE$.empty(),
        new QueryContext[0],
        Option.apply(error.getSqlState()),
        Option.apply(text));
    this.kind = error.kind;
    addSuppressed(error);
  }

  /** The same error, of a statement that has run {@code runs} times. */
  public LanceException after(int runs) {
    return new LanceException(this, getMessage() + " (the statement was run " + runs + " times)");
  }

  /** Name of the class in Python. */
  public String kind() {
    return kind;
  }

  /** Throws {@code error} whatever it is: Spark's interfaces do not declare what its own errors are. */
  public static RuntimeException sneaky(Throwable error) {
    throw LanceException.<RuntimeException>raise(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E raise(Throwable error) throws E {
    throw (E) error;
  }
}
