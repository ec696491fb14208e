package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/** One scan of one query: what to read, planned by Python when Spark first asks. */
final class LanceScan implements Batch, SupportsReportStatistics {
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
    return attachments.subList(1, attachments.size()).stream()
        .map(LanceInputPartition::new)
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LanceReaderFactory(new LanceRunner(plan().attachments().get(0), LanceInputPartition.SCHEMA));
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
