package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map$;

/** An error that Python raised on purpose: its text, with an error condition and an SQLSTATE, without a traceback. */
final class LanceException extends AnalysisException {
  private static final long serialVersionUID = 1L;
  private final String kind;

  private LanceException(String kind, String condition, String sqlState, String text) {
    super(
        "[" + condition + "] " + text + " SQLSTATE: " + sqlState,
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

  static LanceException of(JsonNode error) {
    return new LanceException(
        error.get("kind").asText(),
        error.get("condition").asText(),
        error.get("sql_state").asText(),
        error.get("message").asText());
  }

  /** Name of the class in Python. */
  String kind() {
    return kind;
  }

  /** Throws {@code error} whatever it is: Spark's interfaces do not declare what its own errors are. */
  static RuntimeException sneaky(Throwable error) {
    throw LanceException.<RuntimeException>raise(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E raise(Throwable error) throws E {
    throw (E) error;
  }
}
