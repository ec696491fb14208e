package io.lancespark.streaming;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Epochs;
import io.lancespark.compat.StreamSink;
import io.lancespark.python.Json;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;

/**
 * The columns that the sink of a streaming query had when the query started. For each epoch Spark loads the sink's table
 * by name, and ends the query if it has other columns. Epochs look at the newest columns themselves, so columns that were
 * added meanwhile are hidden from that comparison.
 */
public final class LanceSinkColumns {
  private LanceSinkColumns() {}

  /** {@code description} of a table, without columns that were added to the sink of this thread's query. */
  public static JsonNode hideAdded(JsonNode description, CatalogPlugin catalog, Identifier identifier) {
    StreamSink sink = Epochs.sink(SparkContext.getOrCreate().getLocalProperty(LanceEpochWriteBuilder.QUERY_ID));
    if (sink == null || !sink.catalog().equals(catalog) || !sink.identifier().equals(identifier)) {
      return description;
    }
    ObjectNode hidden = description.deepCopy();
    hidden.set("schema", narrowed(description.get("schema"), Json.type(sink.columns())));
    return hidden;
  }

  /** A type without the members of structs that {@code narrow} does not have. */
  private static JsonNode narrowed(JsonNode type, JsonNode narrow) {
    if (!type.isObject() || !narrow.isObject() || !type.path("type").equals(narrow.path("type"))) {
      return type;
    }
    ObjectNode result = type.deepCopy();
    for (String part : new String[] {"elementType", "keyType", "valueType"}) {
      if (type.has(part)) {
        result.set(part, narrowed(type.get(part), narrow.get(part)));
      }
    }
    if (type.has("fields")) {
      Map<String, JsonNode> types = new HashMap<>();
      narrow.get("fields").forEach(field -> types.put(field.get("name").asText(), field.get("type")));
      ArrayNode fields = result.putArray("fields");
      for (JsonNode field : type.get("fields")) {
        JsonNode other = types.get(field.get("name").asText());
        if (other != null) {
          fields.add(((ObjectNode) field.deepCopy()).set("type", narrowed(field.get("type"), other)));
        }
      }
    }
    return result;
  }
}
