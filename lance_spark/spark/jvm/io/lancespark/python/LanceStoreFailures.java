package io.lancespark.python;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;

/** Statements that are running now and to which a store has failed to answer. */
public final class LanceStoreFailures {
  private static final String EXECUTION = "spark.sql.execution.root.id";
  private static final int REMEMBERED = 256;
  private static final Set<String> STORE_FAILURES = Set.of("LANCE_STORAGE_FAILED", "LANCE_COMMIT_STATE_UNKNOWN");

  private static final Set<String> FAILED =
      Collections.synchronizedSet(
          Collections.newSetFromMap(
              new LinkedHashMap<>() {
                private static final long serialVersionUID = 1L;

                @Override
                protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
                  return size() > REMEMBERED;
                }
              }));

  private LanceStoreFailures() {}

  /** Takes note that a request of the statement on this thread has ended with an error of {@code condition}. */
  static void storeFailed(String condition) {
    String statement = current();
    if (statement != null && STORE_FAILURES.contains(condition)) {
      FAILED.add(statement);
    }
  }

  /** Whether the store has failed a request of the statement on this thread: it gets no second waiting time. */
  static boolean hasStoreFailed() {
    String statement = current();
    return statement != null && FAILED.contains(statement);
  }

  private static String current() {
    return SparkContext.getOrCreate().getLocalProperty(EXECUTION);
  }
}
