package io.lancespark.python;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.compat.SparkError;
import org.apache.spark.sql.AnalysisException;

/** A Python {@code LanceError}: its message with error condition and SQLSTATE, without a traceback. */
public final class LanceException extends SparkError {
  private static final long serialVersionUID = 1L;
  private static final String INVALID = "LANCE_INVALID_INPUT";
  private static final String INVALID_STATE = "22023";
  private static final String UNUSABLE = "LANCE_UNUSABLE_PYTHON";
  private static final String UNUSABLE_STATE = "58000";
  private final String kind;

  private LanceException(String kind, String condition, String sqlState, String text) {
    super(message(condition, sqlState, text), condition, sqlState, text);
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

  /** The same error for use in a task. */
  static AnalysisException inTask(JsonNode error) {
    return inTask(error.get("condition").asText(), error.get("sql_state").asText(), error.get("message").asText());
  }

  /** An invalid input that only Java sees, unchecked. */
  public static RuntimeException invalid(String text) {
    return sneaky(new LanceException("InvalidInputError", INVALID, INVALID_STATE, text));
  }

  /** Spark's condition for a table that a catalog does not have, unchecked. */
  public static RuntimeException tableNotFound(String catalog, String name) {
    String text =
        "the table or view " + catalog + "." + name + " cannot be found; SHOW TABLES IN " + catalog
            + " lists those that are there";
    return sneaky(new LanceException("NotFoundError", "TABLE_OR_VIEW_NOT_FOUND", "42P01", text));
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
    return ofSpark(message(condition, sqlState, text), condition, sqlState, text);
  }

  private LanceException(LanceException error, String text) {
    super(text, error.getCondition(), error.getSqlState(), text);
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
}
