package io.lancespark.python;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;

/** Remembers running statements for which an object store has failed. */
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

  /** Records that a request of this thread's statement has failed with {@code condition}. */
  static void storeFailed(String condition) {
    String statement = current();
    if (statement != null && STORE_FAILURES.contains(condition)) {
      FAILED.add(statement);
    }
  }

  /** Whether the store has failed for this thread's statement; if so, further requests do not wait for it again. */
  static boolean hasStoreFailed() {
    String statement = current();
    return statement != null && FAILED.contains(statement);
  }

  private static String current() {
    return SparkContext.getOrCreate().getLocalProperty(EXECUTION);
  }
}
