package io.lancespark.write;

import com.fasterxml.jackson.databind.node.ArrayNode;
import io.lancespark.catalog.LanceTable;
import io.lancespark.python.Json;
import io.lancespark.python.LanceRunner;
import io.lancespark.read.LanceColumnStatistics;
import io.lancespark.read.LanceInputPartition;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.jdk.javaapi.CollectionConverters;

/** A Spark job of a procedure: a Python function over pieces of work or the rows of a query, messages out. */
public final class LanceJob {
  private static final String CALL_SITE = "callSite.short";
  private static final String DESCRIPTION = "spark.job.description";

  private LanceJob() {}

  /** The messages of a task for each piece of work; Spark's UI shows the job as {@code name}. */
  public static List<byte[]> run(String name, byte[] command, List<byte[]> work) {
    LanceRunner runner = new LanceRunner(command, LanceInputPartition.SCHEMA);
    JavaSparkContext context = JavaSparkContext.fromSparkContext(SparkSession.active().sparkContext());
    return named(
        name, () -> context.parallelize(work, work.size()).mapPartitions(new OverWork(runner)).collect());
  }

  /** Runs a job that is called {@code name} in Spark's log and UI; a description that the user has set stays. */
  private static List<byte[]> named(String name, Supplier<List<byte[]>> job) {
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

  /** A query whose rows a function is to get, a partition at a time. */
  public static final class Query {
    private final Dataset<Row> rows;

    @SuppressWarnings("unchecked")
    public Query(String text) {
      this.rows = (Dataset<Row>) SparkSession.active().sql(text);
    }

    public StructType schema() {
      return rows.schema();
    }

    /** The versions of Lance tables that it reads. */
    public ArrayNode tables() {
      ArrayNode handles = Json.array();
      for (LogicalPlan leaf : CollectionConverters.asJava(rows.queryExecution().analyzed().collectLeaves())) {
        if (leaf instanceof DataSourceV2Relation relation && relation.table() instanceof LanceTable table) {
          handles.add(table.handle());
        }
      }
      return handles;
    }

    /** The messages of the tasks that got rows; Spark's UI shows the job as {@code name}. */
    public List<byte[]> run(String name, byte[] command) {
      LanceRunner runner = new LanceRunner(command, schema());
      return named(
          name, () -> rows.queryExecution().toRdd().toJavaRDD().mapPartitions(new OverRows(runner)).collect());
    }

    /** Statistics of all columns, as JSON; Spark's UI shows the job as {@code name}. */
    public byte[] columnStatistics(String name) {
      return named(name, () -> List.of(LanceColumnStatistics.compute(rows))).get(0);
    }
  }

  private record OverWork(LanceRunner runner) implements FlatMapFunction<Iterator<byte[]>, byte[]>, Serializable {
    @Override
    public Iterator<byte[]> call(Iterator<byte[]> work) {
      List<InternalRow> rows = new ArrayList<>();
      work.forEachRemaining(item -> rows.add(new GenericInternalRow(new Object[] {item})));
      return messages(runner.run(rows.iterator()));
    }
  }

  private record OverRows(LanceRunner runner) implements FlatMapFunction<Iterator<InternalRow>, byte[]>, Serializable {
    @Override
    public Iterator<byte[]> call(Iterator<InternalRow> rows) {
      return rows.hasNext() ? messages(runner.run(rows)) : Collections.emptyIterator();
    }
  }

  private static Iterator<byte[]> messages(Iterator<ColumnarBatch> batches) {
    List<byte[]> messages = new ArrayList<>();
    while (batches.hasNext()) {
      ColumnarBatch batch = batches.next();
      for (int row = 0; row < batch.numRows(); row++) {
        messages.add(batch.column(0).getBinary(row));
      }
    }
    return messages.iterator();
  }
}
