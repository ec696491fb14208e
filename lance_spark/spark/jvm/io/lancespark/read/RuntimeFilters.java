package io.lancespark.read;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/**
 * Filters that come while a query runs. They make another plan of a scan, for the one batch that Spark then asks for in
 * the same thread: it may have the scan in several places of a plan, with different filters, at the same time.
 */
final class RuntimeFilters {
  private final ThreadLocal<PythonChannel.Reply> next = new ThreadLocal<>();

  /**
   * Plans a scan with those of the predicates that it takes.
   *
   * @param request of the scan
   * @param maxValues how many values a predicate may have
   * @return the plan; null if it takes none
   */
  PythonChannel.Reply plan(ObjectNode request, Predicate[] predicates, int maxValues) {
    ArrayNode taken = Json.array();
    List<byte[]> numbers = new ArrayList<>();
    for (Predicate predicate : predicates) {
      ObjectNode filter = predicate.children().length <= maxValues + 1 ? Json.keyFilter(predicate, numbers) : null;
      if (filter != null) {
        taken.add(filter);
      }
    }
    if (taken.isEmpty()) {
      return null;
    }
    ObjectNode filtered = request.deepCopy();
    filtered.set("runtime_filters", taken);
    PythonChannel.Reply plan = PythonChannel.call("scan.plan", filtered, numbers);
    next.set(plan);
    return plan;
  }

  /** The plan for the next batch of this thread; null if no filters came for it. */
  PythonChannel.Reply take() {
    PythonChannel.Reply plan = next.get();
    next.remove();
    return plan;
  }
}
