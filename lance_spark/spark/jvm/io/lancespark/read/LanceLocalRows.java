package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.compat.Rows;
import io.lancespark.python.Json;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** Rows that Python sent as JSON. */
public final class LanceLocalRows implements LocalScan {
  private final String name;
  private final StructType schema;
  private final InternalRow[] rows;

  public LanceLocalRows(String name, JsonNode reply) {
    this.name = name;
    this.schema = Json.schema(reply.get("schema"));
    JsonNode described = reply.get("rows");
    this.rows = new InternalRow[described.size()];
    for (int index = 0; index < rows.length; index++) {
      rows[index] = row(described.get(index));
    }
  }

  @Override
  public InternalRow[] rows() {
    return rows;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "lance " + name;
  }

  private InternalRow row(JsonNode values) {
    Object[] row = new Object[schema.size()];
    for (int index = 0; index < row.length; index++) {
      row[index] = value(values.get(index), schema.fields()[index].dataType());
    }
    return Rows.of(row);
  }

  private static Object value(JsonNode node, DataType type) {
    if (node.isNull()) {
      return null;
    }
    if (type instanceof ArrayType array) {
      Object[] items = new Object[node.size()];
      for (int index = 0; index < items.length; index++) {
        items[index] = value(node.get(index), array.elementType());
      }
      return Rows.array(items);
    }
    if (type instanceof MapType map) {
      Object[] keys = new Object[node.size()];
      Object[] items = new Object[node.size()];
      for (int index = 0; index < keys.length; index++) {
        keys[index] = value(node.get(index).get(0), map.keyType());
        items[index] = value(node.get(index).get(1), map.valueType());
      }
      return Rows.map(keys, items);
    }
    return Json.value(node, type);
  }
}
