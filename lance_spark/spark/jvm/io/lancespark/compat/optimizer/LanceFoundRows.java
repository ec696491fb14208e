package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.PlanNodes;
import io.lancespark.read.LanceStreamScan;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rows that the planner process has read: those of a search, or of a small scan that is a whole query. Spark's node for
 * rows on the driver returns them without a job; this one also says in plans and in the UI what was read.
 */
public final class LanceFoundRows extends SparkPlan {
  private final transient LanceStreamScan scan;
  private final LocalTableScanExec rows;
  private final Seq<SortOrder> order;
  private final long batches;
  private transient scala.collection.immutable.Map<String, SQLMetric> metrics;

  /** Public for Spark, which copies nodes by reflection: with what {@code productElement} returns. */
  public LanceFoundRows(LocalTableScanExec rows, LanceStreamScan scan, Seq<SortOrder> order, long batches) {
    this.rows = rows;
    this.scan = scan;
    this.order = order;
    this.batches = batches;
  }

  /**
   * The rows of a scan, in the order that it has.
   *
   * @param columns attributes of {@code scanned}, which may have other names
   * @param scanned the columns of the scan
   * @param order of the rows
   */
  static LanceFoundRows of(
      LanceStreamScan scan, List<NamedExpression> columns, List<Attribute> scanned, Seq<SortOrder> order) {
    List<Expression> expressions = columns.stream().map(Expression.class::cast).toList();
    UnsafeProjection projection = UnsafeProjection.create(Catalyst.seq(expressions), Catalyst.seq(scanned));
    LanceStreamScan.Rows read = scan.rows(row -> projection.apply(row).copy());
    Seq<Attribute> output = Catalyst.seq(columns.stream().map(NamedExpression::toAttribute).toList());
    LocalTableScanExec rows = PlanNodes.rows(output, read.rows(), true);
    return new LanceFoundRows(rows, scan, order, read.batches());
  }

  @Override
  public Seq<Attribute> output() {
    return rows.output();
  }

  @Override
  public AttributeSet producedAttributes() {
    return outputSet();
  }

  @Override
  public Partitioning outputPartitioning() {
    return PlanNodes.partitioning(rows);
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return order;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    tellMetrics();
    return PlanNodes.execute(rows);
  }

  @Override
  public InternalRow[] executeCollect() {
    tellMetrics();
    return rows.executeCollect();
  }

  @Override
  public InternalRow[] executeTake(int count) {
    tellMetrics();
    return rows.executeTake(count);
  }

  @Override
  public InternalRow[] executeTail(int count) {
    tellMetrics();
    return rows.executeTail(count);
  }

  /** Spark resets metrics before each action. */
  private void tellMetrics() {
    for (CustomTaskMetric metric : scan.reportDriverMetrics()) {
      metrics().apply(metric.name()).set(metric.value());
    }
    metrics().apply("rows_read").set(rows.rows().size());
    metrics().apply("batches_read").set(batches);
    SparkContext context = sparkContext();
    String execution = context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    SQLMetrics.postDriverMetricUpdates(context, execution, metrics().values().toSeq());
  }

  @Override
  public synchronized scala.collection.immutable.Map<String, SQLMetric> metrics() {
    if (metrics == null) {
      Map<String, SQLMetric> all = new HashMap<>();
      for (CustomMetric metric : scan.supportedCustomMetrics()) {
        all.put(metric.name(), SQLMetrics.createV2CustomMetric(sparkContext(), metric));
      }
      metrics = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(all));
    }
    return metrics;
  }

  @Override
  public scala.collection.Iterator<Object> stringArgs() {
    return CollectionConverters.asScala(List.<Object>of(output(), scan.description()).iterator());
  }

  @Override
  public Seq<SparkPlan> children() {
    return Catalyst.seq(List.of());
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> none) {
    return this;
  }

  @Override
  public int productArity() {
    return 4;
  }

  @Override
  public Object productElement(int place) {
    return Arrays.asList(rows, scan, order, batches).get(place);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof LanceFoundRows;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LanceFoundRows that && rows.equals(that.rows);
  }

  @Override
  public int hashCode() {
    return rows.hashCode();
  }
}
