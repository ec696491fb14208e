package io.lancespark.python;

import io.lancespark.compat.Rows;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** A Spark job of a procedure: a Python function over pieces of work or the rows of a query, messages out. */
public final class LanceJob {
  private static final String CALL_SITE = "callSite.short";
  private static final String DESCRIPTION = "spark.job.description";

  /** The row that carries the work of a task into Python. */
  public static final StructType WORK = new StructType().add("work", DataTypes.BinaryType);

  private LanceJob() {}

  /** The messages of a task for each piece of work; Spark's UI shows the job as {@code name}. */
  public static List<byte[]> run(String name, byte[] command, List<byte[]> work) {
    LanceRunner runner = new LanceRunner(command, WORK);
    JavaSparkContext context = JavaSparkContext.fromSparkContext(SparkSession.active().sparkContext());
    return named(
        name, () -> context.parallelize(work, work.size()).mapPartitions(new OverWork(runner)).collect());
  }

  /** Runs a job that is called {@code name} in Spark's log and UI; a description that the user has set stays. */
  public static <T> T named(String name, Supplier<T> job) {
    SparkContext context = SparkSession.active().sparkContext();
    Map<String, String> before = new HashMap<>();
    for (String property : List.of(CALL_SITE, DESCRIPTION)) {
      before.put(property, context.getLocalProperty(property));
    }
    context.setLocalProperty(CALL_SITE, name);
    String description = before.get(DESCRIPTION);
    if (description == null || description.isEmpty()) {
      context.setLocalProperty(DESCRIPTION, name);
    }
    try {
      return job.get();
    } finally {
      before.forEach(context::setLocalProperty);
    }
  }

  /** The messages of the tasks that got rows of a query; Spark's UI shows the job as {@code name}. */
  public static List<byte[]> overRows(String name, byte[] command, StructType schema, JavaRDD<InternalRow> rows) {
    LanceRunner runner = new LanceRunner(command, schema);
    return named(name, () -> rows.mapPartitions(new OverRows(runner)).collect());
  }

  private record OverWork(LanceRunner runner) implements FlatMapFunction<Iterator<byte[]>, byte[]>, Serializable {
    @Override
    public Iterator<byte[]> call(Iterator<byte[]> work) {
      List<byte[]> items = new ArrayList<>();
      work.forEachRemaining(items::add);
      return runner.messages(Rows.ofEach(items).iterator()).iterator();
    }
  }

  private record OverRows(LanceRunner runner) implements FlatMapFunction<Iterator<InternalRow>, byte[]>, Serializable {
    @Override
    public Iterator<byte[]> call(Iterator<InternalRow> rows) {
      return rows.hasNext() ? runner.messages(rows).iterator() : Collections.emptyIterator();
    }
  }
}
