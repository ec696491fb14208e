package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.compat.Rows;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** The tasks of a scan as Python has planned them. */
public final class LanceBatch implements Batch {
  private final PythonChannel.Reply plan;
  private final JsonNode identity;
  private final StructType columns;
  private final boolean limited;
  private final boolean coalesced;

  /**
   * @param plan the function of the tasks, then a description of the work of each task, or the rows themselves
   * @param identity equal for scans of the same rows, without filters that came while the query ran: Spark compares those
   * @param columns those of the rows
   * @param limited whether a task may stop before its last row
   * @param coalesced whether nobody wants to have the rows by the keys of partitions
   */
  LanceBatch(PythonChannel.Reply plan, JsonNode identity, StructType columns, boolean limited, boolean coalesced) {
    this.plan = plan;
    this.columns = columns;
    this.identity = identity;
    this.limited = limited;
    this.coalesced = coalesced;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<byte[]> work = plan.attachments().subList(1, plan.attachments().size());
    boolean inline = plan.body().path("is_inline").asBoolean();
    JsonNode coalescedTasks = plan.body().path("coalesced_tasks");
    if (coalesced && !coalescedTasks.isEmpty()) {
      List<InputPartition> partitions = new ArrayList<>();
      for (JsonNode pack : coalescedTasks) {
        List<byte[]> packedWork = new ArrayList<>();
        pack.forEach(index -> packedWork.add(work.get(index.asInt())));
        partitions.add(new LanceTask.Plain(packedWork, inline));
      }
      return partitions.toArray(InputPartition[]::new);
    }
    JsonNode keys = plan.body().path("keys");
    JsonNode values = plan.body().path("key_values");
    InputPartition[] partitions = new InputPartition[work.size()];
    for (int index = 0; index < partitions.length; index++) {
      List<byte[]> item = List.of(work.get(index));
      partitions[index] =
          keys.isEmpty() || coalesced
              ? new LanceTask.Plain(item, inline)
              : new LanceTask.Keyed(item, inline, key(keys, values.get(index)));
    }
    return partitions;
  }

  private static InternalRow key(JsonNode keys, JsonNode texts) {
    Object[] values = new Object[keys.size()];
    for (int index = 0; index < values.length; index++) {
      values[index] = Json.value(texts.get(index), Json.type(keys.get(index).get("type")));
    }
    return Rows.of(values);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LanceReaderFactory(plan.attachments().get(0), columns, limited, toString());
  }

  @Override
  public String toString() {
    return plan.body().get("description").asText();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LanceBatch that && coalesced == that.coalesced && identity.equals(that.identity);
  }

  @Override
  public int hashCode() {
    return identity.hashCode();
  }
}
