package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.SessionConf;
import io.lancespark.compat.ChangesRange;
import io.lancespark.compat.SparkCatalog;
import io.lancespark.compat.SparkChangelog;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.table.LanceCachedPlans;
import io.lancespark.table.LanceIdentifier;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** Builds and sends the requests of a catalog about tables. */
public final class TableRequests {
  private final String catalog;
  private final Map<String, String> settings;

  public TableRequests(String catalog, Map<String, String> settings) {
    this.catalog = catalog;
    this.settings = Map.copyOf(settings);
  }

  String catalog() {
    return catalog;
  }

  /** A request with the fields that all table requests share: catalog name, settings, identifier. */
  public ObjectNode request(Identifier identifier) {
    Identifier resolved = catalog.equals(LanceIdentifier.CATALOG) ? LanceIdentifier.resolve(identifier) : identifier;
    ObjectNode request = request();
    request.set("namespace", Json.strings(resolved.namespace()));
    request.put("name", resolved.name());
    Map<String, String> ofPath = resolved instanceof LanceIdentifier path ? path.options() : Map.of();
    request.set("options", Json.map(ofPath));
    request.put("by_path", resolved instanceof LanceIdentifier);
    return request;
  }

  public ObjectNode request() {
    ObjectNode request = Json.object();
    ObjectNode described = request.putObject("catalog");
    described.put("name", catalog);
    described.put("case_sensitive", SessionConf.isCaseSensitive());
    described.set("settings", Json.map(settings));
    return request;
  }

  /** The table, or null if it does not exist. */
  public Table load(Identifier identifier, SparkCatalog.State state, Map<String, String> options) {
    ObjectNode request = loadRequest(identifier, state, options);
    JsonNode reply = PythonChannel.call("table.load", request).body();
    if (reply.get("found").asBoolean()) {
      return LancePartitionedTable.of(reply.get("table"));
    }
    if (identifier.namespace().length == 0) {
      return null;
    }
    JsonNode metadata = PythonChannel.call("metadata.load", request).body();
    return metadata.get("found").asBoolean() ? new LanceMetadataTable(metadata) : null;
  }

  /**
   * Passes if Spark's own error fits a relation whose table does not exist.
   *
   * @throws io.lancespark.python.LanceException (unchecked) for a path, for the metadata table of another
   *     format, and for a view where only a table fits
   */
  public void checkMissing(Identifier identifier, SparkCatalog.State state, Map<String, String> options) {
    PythonChannel.call("table.check_missing", loadRequest(identifier, state, options));
  }

  /** Refreshes what Spark has cached of a table, whatever name a cached plan has for it. */
  public void refresh(Identifier identifier) {
    if (!LanceCachedPlans.isEmpty() && load(identifier, SparkCatalog.State.NEWEST, Map.of()) instanceof LanceTable table) {
      LanceCachedPlans.refresh(table.handle());
    }
  }

  /** The changes in a version range, or null if the table does not exist. */
  public SparkChangelog changes(
      Identifier identifier, ChangesRange range, Map<String, String> options) {
    ObjectNode described = LanceChangelog.describe(range);
    ObjectNode request = Json.object();
    request.set("table", loadRequest(identifier, SparkCatalog.State.NEWEST, options));
    request.set("range", described);
    request.put("deduplication", range.deduplication().toLowerCase(Locale.ROOT));
    request.put("compute_updates", range.computesUpdates());
    JsonNode reply = PythonChannel.call("changelog.load", request).body();
    return reply.get("found").asBoolean() ? new LanceChangelog(reply, described) : null;
  }

  /**
   * The result of a search in a table, or null if the table does not exist.
   *
   * @param search the name of the function and its arguments
   */
  public Table search(Identifier identifier, ObjectNode search) {
    ObjectNode request = Json.object();
    request.set("table", loadRequest(identifier, SparkCatalog.State.NEWEST, Map.of()));
    request.set("search", search);
    JsonNode reply = PythonChannel.call("search.load", request).body();
    return reply.get("found").asBoolean() ? new LanceSearchTable(reply, search) : null;
  }

  private ObjectNode loadRequest(Identifier identifier, SparkCatalog.State state, Map<String, String> options) {
    ObjectNode request = request(identifier);
    if (!options.isEmpty()) {
      ObjectNode merged = Json.map(options);
      merged.setAll((ObjectNode) request.get("options"));
      request.set("options", merged);
    }
    if (state.version() != null) {
      request.putObject("time_travel").put("version", state.version());
    } else if (state.micros() != null) {
      request.putObject("time_travel").put("timestamp_micros", state.micros());
    }
    ArrayNode privileges = request.putArray("privileges");
    state.privileges().forEach(privileges::add);
    return request;
  }

  /** The session catalog's table at the path in its properties; created if {@code schema} is not null. */
  public static LanceTable ofSessionCatalog(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    ObjectNode request = Json.object();
    request.set("properties", Json.map(properties));
    request.set("schema", schema == null ? null : Json.type(schema));
    request.set("partitioning", Json.expressions(partitioning));
    return new LanceTable(PythonChannel.call("table.session", request).body().get("table"));
  }

  /** The table of a streaming query that names a path; if it is written to, the first epoch may make it. */
  public static LanceTable atPath(Map<String, String> options, boolean isRead) {
    ObjectNode request = Json.object();
    request.set("options", Json.map(options));
    request.put("is_read", isRead);
    return new LanceTable(PythonChannel.call("stream.table", request).body().get("table"), false);
  }
}
