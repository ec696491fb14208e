package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.TimeTravel;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** Requests about tables: how a catalog names them to Python. */
final class LanceTables {
  private final String catalog;
  private final Map<String, String> settings;

  LanceTables(String catalog, Map<String, String> settings) {
    this.catalog = catalog;
    this.settings = Map.copyOf(settings);
  }

  /** The catalog's name and settings, and the identifier: what every request about a table begins with. */
  ObjectNode request(Identifier identifier) {
    ObjectNode request = request();
    request.set("namespace", Json.strings(identifier.namespace()));
    request.put("name", identifier.name());
    Map<String, String> given = identifier instanceof LanceIdentifier path ? path.options() : Map.of();
    request.set("options", Json.map(given));
    request.put("by_path", identifier instanceof LanceIdentifier);
    return request;
  }

  ObjectNode request() {
    ObjectNode request = Json.object();
    ObjectNode described = request.putObject("catalog");
    described.put("name", catalog);
    described.set("settings", Json.map(settings));
    return request;
  }

  /** The table, null if there is none. */
  LanceTable load(Identifier identifier, TableContext context, Map<String, String> options) {
    ObjectNode request = request(identifier);
    if (!options.isEmpty()) {
      ObjectNode merged = Json.map(options);
      merged.setAll((ObjectNode) request.get("options"));
      request.set("options", merged);
    }
    context.timeTravel().ifPresent(travel -> request.set("time_travel", timeTravel(travel)));
    ArrayNode privileges = request.putArray("privileges");
    for (TableWritePrivilege privilege : context.writePrivileges()) {
      privileges.add(privilege.name());
    }
    JsonNode reply = LancePy.call("table.load", request).body();
    return reply.get("found").asBoolean() ? new LanceTable(reply.get("table")) : null;
  }

  /** The table of the session catalog at the path that its properties tell; created if {@code schema} is given. */
  static LanceTable ofSessionCatalog(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    ObjectNode request = Json.object();
    request.set("properties", Json.map(properties));
    request.set("schema", schema == null ? null : Json.type(schema));
    request.set("partitioning", Json.expressions(partitioning));
    return new LanceTable(LancePy.call("table.session", request).body().get("table"));
  }

  private static ObjectNode timeTravel(TimeTravel travel) {
    ObjectNode node = Json.object();
    if (travel instanceof TimeTravel.AsOfVersion version) {
      node.put("version", version.version());
    } else if (travel instanceof TimeTravel.AsOfTimestamp timestamp) {
      node.put("timestamp_micros", timestamp.micros());
    }
    return node;
  }
}
