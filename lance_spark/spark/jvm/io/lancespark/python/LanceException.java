package io.lancespark.python;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.trees.Origin;
import scala.Option;
import scala.collection.immutable.Map$;

/** A Python {@code LanceError}: its message with error condition and SQLSTATE, without a traceback. */
public final class LanceException extends AnalysisException {
  private static final long serialVersionUID = 1L;
  private static final String INVALID = "LANCE_INVALID_INPUT";
  private static final String INVALID_STATE = "22023";
  private static final String UNUSABLE = "LANCE_UNUSABLE_PYTHON";
  private static final String UNUSABLE_STATE = "58000";
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
   * The same error for use in a task, as one of Spark's own classes: the driver thread that deserializes it does not
   * see jars that a session has added. Spark's scheduler rethrows it unchanged because it has a condition. It has no
   * stack trace, because Spark would log it for every attempt of the task.
   */
  static AnalysisException inTask(JsonNode error) {
    return inTask(error.get("condition").asText(), error.get("sql_state").asText(), error.get("message").asText());
  }

  /** An invalid input that only Java sees, unchecked. */
  public static RuntimeException invalid(String text) {
    return sneaky(new LanceException("InvalidInputError", INVALID, INVALID_STATE, text));
  }

  /** The same for tasks. */
  public static RuntimeException invalidInTask(String text) {
    return sneaky(inTask(INVALID, INVALID_STATE, text));
  }

  /** The error of a task whose Python process has no address space for a library, unchecked. */
  static RuntimeException tooLittleMemoryFor(String library) {
    return sneaky(
        inTask(
            "LANCE_OUT_OF_MEMORY",
            "53200",
            "the Python process of a task lacks memory to load " + library + ". Raise spark.executor.pyspark.memory: "
                + "it is shared by the tasks that an executor runs at a time, and each needs at least 1.5 GB"));
  }

  /** The error of a Python that cannot plan statements, unchecked. */
  static RuntimeException unusablePython(String text, Throwable cause) {
    LanceException error = new LanceException("UnusablePythonError", UNUSABLE, UNUSABLE_STATE, text);
    if (cause != null) {
      error.addSuppressed(cause);
    }
    return sneaky(error);
  }

  /** The same for tasks. */
  static RuntimeException unusablePythonInTask(String text) {
    return sneaky(inTask(UNUSABLE, UNUSABLE_STATE, text));
  }

  /** The error of a request that may have written, and that the planner worker was lost with, unchecked. */
  static RuntimeException unknown(String op, Throwable cause) {
    LanceException error =
        new LanceException(
            "CommitStateUnknownError",
            "LANCE_COMMIT_STATE_UNKNOWN",
            "40003",
            "the Python process that plans statements ended during " + op + ", perhaps for lack of memory. What the "
                + "statement changes may be there or not: look at the table before you run it again");
    error.addSuppressed(cause);
    return sneaky(error);
  }

  private static AnalysisException inTask(String condition, String sqlState, String text) {
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

  /** The same error, with the number of runs of the statement in its message. */
  public LanceException after(int runs) {
    return new LanceException(this, getMessage() + " (the statement was run " + runs + " times)");
  }

  /** Name of the Python class. */
  public String kind() {
    return kind;
  }

  /** This error: Spark's copy with a position has a query context, and Python then asks Spark for our condition's text. */
  @Override
  public AnalysisException withPosition(Origin origin) {
    return this;
  }

  /** Throws {@code error} unchecked: Spark's interfaces do not declare the errors that Spark throws. */
  public static RuntimeException sneaky(Throwable error) {
    throw LanceException.<RuntimeException>raise(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E raise(Throwable error) throws E {
    throw (E) error;
  }
}
