package io.lancespark.python;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Epochs;
import io.lancespark.compat.SessionConf;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;

/**
 * Names the writes of a {@code foreachBatch} function, if the setting asks for it, so that a batch that Spark runs again
 * does not write twice.
 *
 * <p>The n-th write of a batch to a table is called {@code <query id>/<n>}, with the number of the batch as its version.
 * The next run of the batch counts from 0 again. Runs are distinguished by the execution that Spark begins for each.
 */
public final class LanceBatchWrites {
  static final String IDEMPOTENT = "spark.sql.lance.foreachBatch.idempotent";
  private static final String QUERY = "sql.streaming.queryId";
  private static final String BATCH = "streaming.sql.batchId";
  private static final String EXECUTION = "spark.sql.execution.id";
  private static final String ROOT = "spark.sql.execution.root.id";
  private static final int REMEMBERED = 1024;

  private static final Set<String> WRITES = Set.of("write.plan", "row_level.plan", "row_level.delete");

  /** The numbers of the writes of a batch to a table, by their executions. */
  private static final Map<String, Map<String, Integer>> NUMBERS =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Map<String, Integer>> eldest) {
          return size() > REMEMBERED;
        }
      };

  /** The number of this thread's last write. */
  private static final ThreadLocal<Integer> LAST = new ThreadLocal<>();
  private static final ThreadLocal<Boolean> IS_RERUN = ThreadLocal.withInitial(() -> false);

  private LanceBatchWrites() {}

  /** Runs a statement of this thread once more, after a conflict: it keeps the name that it had. */
  public static void again(Runnable statement) {
    IS_RERUN.set(true);
    try {
      statement.run();
    } finally {
      IS_RERUN.remove();
    }
  }

  /** Adds the name of the write that the request {@code op} begins to {@code session}. */
  static void name(ObjectNode session, String op, JsonNode request) {
    String refused = refused(op, request);
    if ((refused == null && !WRITES.contains(op)) || session.has("txn_app_id") || !isIdempotent()) {
      return;
    }
    SparkContext context = SparkContext.getOrCreate();
    String query = context.getLocalProperty(QUERY);
    String batch = context.getLocalProperty(BATCH);
    if (query == null || batch == null) {
      return;
    }
    if (refused != null) {
      throw new UnsupportedOperationException(
          refused + " cannot be done once only, as " + IDEMPOTENT + " promises; use DELETE FROM, or do it outside of the batch");
    }
    String root = context.getLocalProperty(ROOT);
    String execution = context.getLocalProperty(EXECUTION);
    if (root == null || execution == null || root.equals(execution)) {
      throw new IllegalStateException(
          "Spark does not say which run of a batch this write is of; unset " + IDEMPOTENT + " and name the write by txnAppId");
    }
    JsonNode handle = request.path("handle");
    String table = String.join("\n", query, batch, root, handle.path("uri").asText(), handle.path("branch").asText());
    session.put("txn_app_id", query + "/" + number(table, execution));
    session.put("txn_version", batch);
    session.put("txn_planned", Epochs.planned(query, Long.parseLong(batch)));
  }

  /** A statement that no version marks as done: done again, it would undo writes that are not done again. */
  private static String refused(String op, JsonNode request) {
    if (op.equals("table.truncate")) {
      return "TRUNCATE";
    }
    return op.equals("procedure.call") && request.path("name").asText().equals("restore") ? "CALL restore" : null;
  }

  private static int number(String table, String execution) {
    if (IS_RERUN.get() && LAST.get() != null) {
      return LAST.get();
    }
    synchronized (NUMBERS) {
      Map<String, Integer> numbers = NUMBERS.computeIfAbsent(table, key -> new HashMap<>());
      int number = numbers.computeIfAbsent(execution, key -> numbers.size());
      LAST.set(number);
      return number;
    }
  }

  private static boolean isIdempotent() {
    String value = SessionConf.get(IDEMPOTENT, "false");
    if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
      throw new IllegalArgumentException(IDEMPOTENT + " is '" + value + "'; set it to true or false");
    }
    return Boolean.parseBoolean(value);
  }
}
