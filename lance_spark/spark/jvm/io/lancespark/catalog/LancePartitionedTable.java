package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Rows;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsPartitionManagement;
import org.apache.spark.sql.types.StructType;

/** A partitioned table, for SHOW PARTITIONS. Partitions are created and removed only by writing and deleting rows. */
public final class LancePartitionedTable extends LanceTable implements SupportsPartitionManagement {
  private JsonNode partitions;

  LancePartitionedTable(JsonNode description) {
    super(description);
  }

  /** The table of a description, with the class for plain or partitioned tables. */
  public static LanceTable of(JsonNode description) {
    boolean isPlain = description.path("partitioning").isEmpty();
    return isPlain ? new LanceTable(description) : new LancePartitionedTable(description);
  }

  @Override
  LanceTable withDescription(JsonNode described) {
    return of(described);
  }

  /** The fields of the newest spec, and the values of each partition. */
  private synchronized JsonNode partitions() {
    if (partitions == null) {
      ObjectNode request = Json.object();
      request.set("handle", handle());
      partitions = PythonChannel.call("partitions.list", request).body();
    }
    return partitions;
  }

  @Override
  public StructType partitionSchema() {
    return Json.schema(partitions().get("schema"));
  }

  @Override
  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow sought) {
    StructType schema = partitionSchema();
    List<InternalRow> matching = new ArrayList<>();
    for (JsonNode texts : partitions().get("values")) {
      Object[] values = new Object[schema.size()];
      for (int index = 0; index < values.length; index++) {
        values[index] = Json.value(texts.get(index), schema.fields()[index].dataType());
      }
      boolean matches = true;
      for (int place = 0; place < names.length; place++) {
        int index = schema.fieldIndex(names[place]);
        matches = matches && Objects.deepEquals(values[index], sought.get(place, schema.fields()[index].dataType()));
      }
      if (matches) {
        matching.add(Rows.of(values));
      }
    }
    return matching.toArray(new InternalRow[0]);
  }

  @Override
  public boolean partitionExists(InternalRow values) {
    return listPartitionIdentifiers(partitionSchema().fieldNames(), values).length > 0;
  }

  @Override
  public Map<String, String> loadPartitionMetadata(InternalRow values) {
    return Map.of();
  }

  @Override
  public void createPartition(InternalRow values, Map<String, String> properties) {
    throw refused("add");
  }

  @Override
  public boolean dropPartition(InternalRow values) {
    throw refused("drop");
  }

  @Override
  public void replacePartitionMetadata(InternalRow values, Map<String, String> properties) {
    throw refused("alter");
  }

  private static UnsupportedOperationException refused(String verb) {
    return new UnsupportedOperationException(
        "a partition of a Lance table comes with its rows and goes with them; there is nothing to " + verb);
  }
}
