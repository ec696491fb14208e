package io.lancespark.streaming;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.python.Json;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What the last epoch of a streaming query has written, for the query's progress.
 *
 * <p>Spark asks the table object that the query was started with, and writes through others, so the numbers are kept by
 * query.
 */
final class LanceSinkMetrics {
  private static final int MOST_QUERIES = 1000;

  private static final Map<String, Map<String, String>> BY_QUERY =
      Collections.synchronizedMap(
          new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Map<String, String>> eldest) {
              return size() > MOST_QUERIES;
            }
          });

  private LanceSinkMetrics() {}

  /** The numbers by name; none before the first epoch. */
  static Map<String, String> of(String query) {
    return query == null ? Map.of() : BY_QUERY.getOrDefault(query, Map.of());
  }

  /**
   * Keeps the numbers of an epoch.
   *
   * @param counted what was written; null if the table had the epoch already
   */
  static void keep(String query, long epoch, JsonNode counted) {
    Map<String, String> numbers = new LinkedHashMap<>();
    numbers.put("epoch", Long.toString(epoch));
    numbers.put("replays", counted == null ? "1" : "0");
    if (counted != null) {
      numbers.putAll(Json.map(counted));
    }
    BY_QUERY.put(query, numbers);
  }
}
