package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Views of a catalog as Python keeps them. */
final class LanceViews {
  private LanceViews() {}

  /** A view; null if there is none. */
  static View load(TableRequests requests, Identifier identifier) {
    JsonNode view = PythonChannel.call("catalog.view", requests.request(identifier)).body().get("view");
    return view.isNull() ? null : read(view);
  }

  private static View read(JsonNode view) {
    View.Builder builder = new View.Builder();
    builder.withProperties(Json.map(view.get("properties")));
    builder.withSchema((StructType) DataType.fromJson(view.get("columns").asText()));
    return builder
        .withQueryText(view.get("query").asText())
        .withCurrentCatalog(text(view.get("current_catalog")))
        .withCurrentNamespace(texts(view.get("current_namespace")))
        .withSqlConfigs(Json.map(view.get("sql_configs")))
        .withSchemaMode(text(view.get("schema_mode")))
        .withQueryColumnNames(texts(view.get("query_columns")))
        .build();
  }

  /** Sends the definition of a view; the outcome of the request. */
  static String define(TableRequests requests, String op, Identifier identifier, View view) {
    ObjectNode request = requests.request(identifier);
    ObjectNode described = request.putObject("view");
    described.put("query", view.queryText());
    described.put("columns", view.schema().json());
    described.put("current_catalog", view.currentCatalog());
    described.set("current_namespace", Json.strings(orNone(view.currentNamespace())));
    described.set("sql_configs", Json.map(view.sqlConfigs()));
    described.put("schema_mode", view.schemaMode());
    described.set("query_columns", Json.strings(orNone(view.queryColumnNames())));
    described.set("properties", Json.map(view.properties()));
    return PythonChannel.call(op, request).body().get("outcome").asText();
  }

  static JsonNode ofNamespace(TableRequests requests, String op, String[] namespace) throws NoSuchNamespaceException {
    ObjectNode request = requests.request();
    request.set("namespace", Json.strings(namespace));
    JsonNode reply = PythonChannel.call(op, request).body();
    if (reply.get("outcome").asText().equals("no_namespace")) {
      throw new NoSuchNamespaceException(namespace);
    }
    return reply;
  }

  static Identifier[] identifiers(JsonNode names, String[] namespace) {
    List<Identifier> identifiers = new ArrayList<>();
    names.forEach(name -> identifiers.add(Identifier.of(namespace, name.asText())));
    return identifiers.toArray(Identifier[]::new);
  }

  private static String text(JsonNode value) {
    return value.isNull() ? null : value.asText();
  }

  private static String[] texts(JsonNode values) {
    List<String> texts = new ArrayList<>();
    values.forEach(value -> texts.add(value.asText()));
    return texts.toArray(String[]::new);
  }

  private static String[] orNone(String[] values) {
    return values == null ? new String[0] : values;
  }
}
