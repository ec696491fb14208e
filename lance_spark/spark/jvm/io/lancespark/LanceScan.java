package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.types.StructType;

/** One scan of one query: what to read, planned by Python when Spark first asks. */
final class LanceScan implements Batch, SupportsReportStatistics, SupportsReportPartitioning {
  private final ObjectNode request;
  private final StructType columns;
  private LancePy.Reply plan;

  LanceScan(ObjectNode request, StructType columns) {
    this.request = request;
    this.columns = columns;
    request.set("columns", Json.type(columns));
  }

  /** The function of the tasks, then a description of the work of each task. */
  private synchronized LancePy.Reply plan() {
    if (plan == null) {
      plan = LancePy.call("scan.plan", request);
    }
    return plan;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return plan().body().get("description").asText();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<byte[]> attachments = plan().attachments();
    List<byte[]> work = attachments.subList(1, attachments.size());
    JsonNode keys = plan().body().path("keys");
    if (keys.isEmpty()) {
      return work.stream().map(LanceInputPartition::new).toArray(InputPartition[]::new);
    }
    JsonNode values = plan().body().get("key_values");
    InputPartition[] partitions = new InputPartition[work.size()];
    for (int index = 0; index < partitions.length; index++) {
      partitions[index] = new LanceKeyedPartition(work.get(index), key(keys, values.get(index)));
    }
    return partitions;
  }

  private static InternalRow key(JsonNode keys, JsonNode texts) {
    Object[] values = new Object[keys.size()];
    for (int index = 0; index < values.length; index++) {
      values[index] = Json.value(texts.get(index), Json.type(keys.get(index).get("type")));
    }
    return new GenericInternalRow(values);
  }

  /** By which keys the tasks' rows are apart, for joins and aggregations without a shuffle. */
  @Override
  public Partitioning outputPartitioning() {
    JsonNode keys = plan().body().path("keys");
    int tasks = plan().attachments().size() - 1;
    if (keys.isEmpty()) {
      return new UnknownPartitioning(tasks);
    }
    Transform[] transforms = new Transform[keys.size()];
    for (int index = 0; index < transforms.length; index++) {
      transforms[index] = Json.transform(keys.get(index).get("transform"));
    }
    return new KeyGroupedPartitioning(transforms, tasks);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LanceReaderFactory(new LanceRunner(plan().attachments().get(0), LanceInputPartition.SCHEMA));
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return LanceMetrics.ofScans();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return LanceMetrics.values(plan().body().path("metrics"));
  }

  @Override
  public Statistics estimateStatistics() {
    JsonNode body = plan().body();
    return new Estimate(body.get("num_rows"), body.get("size_bytes"));
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LanceScan that && request.equals(that.request);
  }

  @Override
  public int hashCode() {
    return request.hashCode();
  }

  private record Estimate(JsonNode rows, JsonNode bytes) implements Statistics {
    @Override
    public OptionalLong numRows() {
      return rows.isNull() ? OptionalLong.empty() : OptionalLong.of(rows.asLong());
    }

    @Override
    public OptionalLong sizeInBytes() {
      return bytes.isNull() ? OptionalLong.empty() : OptionalLong.of(bytes.asLong());
    }
  }
}
