package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.rules.Rule;

/**
 * Searches of joins read only the columns that the query needs, and few queries, which Spark reads in one task, are
 * searched by all cores. Spark prunes the columns of scans only; it has put a projection above each search by now.
 */
public final class LanceNearestColumns extends Rule<LogicalPlan> {
  /** Queries of fewer bytes are searched sooner than they are sent to other tasks. */
  private static final long LEAST_BYTES = 64L << 10;

  /** Queries of more bytes have several tasks already. */
  private static final long MOST_BYTES = 64L << 20;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformDown(Catalyst.replacing(node -> node instanceof Project project ? narrowed(project) : null));
  }

  /** The projection over a search of fewer columns or by more tasks; null if it is not over a search. */
  private static LogicalPlan narrowed(Project project) {
    Filter filter = project.child() instanceof Filter condition ? condition : null;
    LogicalPlan below = filter == null ? project.child() : filter.child();
    if (LanceNearestSearch.in(below) == null) {
      return null;
    }
    AttributeSet used = filter == null ? project.references() : project.references().$plus$plus(filter.references());
    LogicalPlan search = spread(narrowed((Generate) below, used));
    if (search == below) {
      return null;
    }
    LogicalPlan child = filter == null ? search : new Filter(filter.condition(), search);
    return new Project(project.projectList(), child);
  }

  private static Generate narrowed(Generate search, AttributeSet used) {
    List<Attribute> attributes = new ArrayList<>(Catalyst.list(search.generatorOutput()));
    List<Integer> places =
        IntStream.range(0, attributes.size()).filter(place -> used.contains(attributes.get(place))).boxed().toList();
    if (places.isEmpty()) {
      places = List.of(0); // The rows are needed, if only to be counted.
    }
    Generate fewer = places.size() == attributes.size() ? null : LanceNearestSearch.narrowed(search, places);
    return fewer == null ? search : fewer;
  }

  private static Generate spread(Generate search) {
    int cores = SparkContext.getOrCreate().defaultParallelism();
    LogicalPlan queries = search.child();
    if (cores < 2 || queries instanceof Repartition) {
      return search;
    }
    long bytes = queries.stats().sizeInBytes().toLong();
    return bytes < LEAST_BYTES || bytes > MOST_BYTES
        ? search
        : search.copy(
            search.generator(),
            search.unrequiredChildIndex(),
            search.outer(),
            search.qualifier(),
            search.generatorOutput(),
            new Repartition(cores, true, queries));
  }
}
