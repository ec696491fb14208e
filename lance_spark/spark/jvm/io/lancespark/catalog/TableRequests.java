package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.TimeTravel;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Builds and sends the requests of a catalog about tables. */
public final class TableRequests {
  /** An option that marks the target of a MERGE, not one of users. */
  public static final String MERGE = "__lance_merge__";

  private final String catalog;
  private final Map<String, String> settings;

  public TableRequests(String catalog, Map<String, String> settings) {
    this.catalog = catalog;
    this.settings = Map.copyOf(settings);
  }

  String catalog() {
    return catalog;
  }

  /** The options of a relation, without the mark of a MERGE. */
  public static ObjectNode options(CaseInsensitiveStringMap options) {
    ObjectNode given = Json.map(options.asCaseSensitiveMap());
    given.remove(MERGE);
    return given;
  }

  /** A request with the fields that all table requests share: catalog name, settings, identifier. */
  public ObjectNode request(Identifier identifier) {
    Identifier known = catalog.equals(LanceIdentifier.CATALOG) ? LanceIdentifier.resolve(identifier) : identifier;
    ObjectNode request = request();
    request.set("namespace", Json.strings(known.namespace()));
    request.put("name", known.name());
    Map<String, String> given = known instanceof LanceIdentifier path ? path.options() : Map.of();
    request.set("options", Json.map(given));
    request.put("by_path", known instanceof LanceIdentifier);
    return request;
  }

  public ObjectNode request() {
    ObjectNode request = Json.object();
    ObjectNode described = request.putObject("catalog");
    described.put("name", catalog);
    described.put("case_sensitive", SQLConf.get().caseSensitiveAnalysis());
    described.set("settings", Json.map(settings));
    return request;
  }

  public static TableContext asOfVersion(String version) {
    return new TableContext(new TimeTravel.AsOfVersion(version), Set.of());
  }

  public static TableContext asOfTimestamp(long micros) {
    return new TableContext(new TimeTravel.AsOfTimestamp(micros), Set.of());
  }

  /** The table, or null if it does not exist. */
  public Table load(Identifier identifier, TableContext context, Map<String, String> options) {
    ObjectNode request = loadRequest(identifier, context, options);
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

  /** Refreshes what Spark has cached of a table, whatever name a cached plan has for it. */
  public void refresh(Identifier identifier) {
    if (!LanceCachedPlans.isEmpty() && load(identifier, new TableContext(null, Set.of()), Map.of()) instanceof LanceTable table) {
      LanceCachedPlans.refresh(table.handle());
    }
  }

  /** The changes in a version range, or null if the table does not exist. */
  public Changelog changes(Identifier identifier, ChangelogContext context, Map<String, String> options) {
    ObjectNode described = LanceChangelog.describe(context.range());
    ObjectNode request = Json.object();
    request.set("table", loadRequest(identifier, new TableContext(null, Set.of()), options));
    request.set("range", described);
    request.put("deduplication", context.deduplicationMode().name().toLowerCase(Locale.ROOT));
    request.put("compute_updates", context.computeUpdates());
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
    request.set("table", loadRequest(identifier, new TableContext(null, Set.of()), Map.of()));
    request.set("search", search);
    JsonNode reply = PythonChannel.call("search.load", request).body();
    return reply.get("found").asBoolean() ? new LanceSearchTable(reply, search) : null;
  }

  private ObjectNode loadRequest(Identifier identifier, TableContext context, Map<String, String> options) {
    ObjectNode request = request(identifier);
    if (!options.isEmpty()) {
      ObjectNode merged = Json.map(options);
      request.put("is_merge", merged.remove(MERGE) != null);
      merged.setAll((ObjectNode) request.get("options"));
      request.set("options", merged);
    }
    context.timeTravel().ifPresent(travel -> request.set("time_travel", timeTravel(travel)));
    ArrayNode privileges = request.putArray("privileges");
    for (TableWritePrivilege privilege : context.writePrivileges()) {
      privileges.add(privilege.name());
    }
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
