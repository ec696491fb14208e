package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** The tasks of a scan as Python has planned them. */
final class LanceBatch implements Batch {
  private final LancePy.Reply plan;
  private final ObjectNode request;
  private final StructType columns;

  /**
   * @param plan the function of the tasks, then a description of the work of each task, or the rows themselves
   * @param request what the scan was asked for, without filters that came while the query ran: Spark compares those
   * @param columns those of the rows
   */
  LanceBatch(LancePy.Reply plan, ObjectNode request, StructType columns) {
    this.plan = plan;
    this.columns = columns;
    this.request = request;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<byte[]> attachments = plan.attachments();
    List<byte[]> work = attachments.subList(1, attachments.size());
    boolean inline = plan.body().path("is_inline").asBoolean();
    JsonNode keys = plan.body().path("keys");
    if (keys.isEmpty()) {
      return work.stream().map(item -> new LanceInputPartition(item, inline)).toArray(InputPartition[]::new);
    }
    JsonNode values = plan.body().get("key_values");
    InputPartition[] partitions = new InputPartition[work.size()];
    for (int index = 0; index < partitions.length; index++) {
      partitions[index] = new LanceKeyedPartition(work.get(index), inline, key(keys, values.get(index)));
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

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LanceReaderFactory(plan.attachments().get(0), columns, request.has("limit"));
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LanceBatch that && request.equals(that.request);
  }

  @Override
  public int hashCode() {
    return request.hashCode();
  }
}
