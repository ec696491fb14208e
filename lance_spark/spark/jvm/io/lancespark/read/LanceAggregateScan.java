package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Rows;
import io.lancespark.python.Json;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** Aggregates that the table's metadata answers: one row, and no task. */
public final class LanceAggregateScan implements LocalScan {
  private final JsonNode handle;
  private final StructType columns;
  private final JsonNode values;

  LanceAggregateScan(JsonNode handle, StructType columns, JsonNode values) {
    this.handle = handle;
    this.columns = columns;
    this.values = values;
  }

  /** What was read: all rows. */
  public ObjectNode request() {
    ObjectNode request = Json.object();
    request.set("handle", handle);
    return request;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public InternalRow[] rows() {
    Object[] row = new Object[columns.size()];
    for (int index = 0; index < row.length; index++) {
      row[index] = Json.value(values.get(index), columns.fields()[index].dataType());
    }
    return new InternalRow[] {Rows.of(row)};
  }

  @Override
  public String description() {
    return "lance " + handle.get("uri").asText() + " answered by metadata";
  }
}
