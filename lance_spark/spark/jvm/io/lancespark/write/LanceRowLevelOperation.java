package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.read.LanceScanBuilder;
import io.lancespark.table.WritableVersion;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A DELETE, UPDATE or MERGE: Spark passes deleted and added rows, by the columns that Python knows rows by. */
public final class LanceRowLevelOperation implements RowLevelOperationBuilder, SupportsDelta, WritableVersion.Operation {
  private final JsonNode handle;
  private final StructType schema;
  private final RowLevelOperationInfo info;
  private final JsonNode plan;
  /** The columns that change in rows that do not move, an array; null if all changed rows move. */
  private final JsonNode changed;
  /** Requests of the scans of the target. */
  private final Collection<JsonNode> reads;

  public LanceRowLevelOperation(JsonNode handle, StructType schema, RowLevelOperationInfo info) {
    this.handle = handle;
    this.schema = schema;
    this.info = info;
    this.changed = null;
    this.reads = new ConcurrentLinkedQueue<>();
    ObjectNode request = Json.object();
    request.set("handle", handle);
    request.put("command", info.command().name());
    this.plan = PythonChannel.call("row_level.begin", request).body();
  }

  private LanceRowLevelOperation(LanceRowLevelOperation other, JsonNode changed, JsonNode plan) {
    this.handle = other.handle;
    this.schema = other.schema;
    this.info = other.info;
    this.reads = other.reads;
    this.changed = changed;
    this.plan = plan;
  }

  /** The operation for updated rows with no other columns than these, or null if complete rows are to move. */
  public LanceRowLevelOperation changing(List<String> columns) {
    ObjectNode request = Json.object();
    request.set("handle", handle);
    request.put("command", info.command().name());
    ArrayNode names = request.putArray("columns");
    columns.forEach(names::add);
    JsonNode reply = PythonChannel.call("row_level.columns", request).body();
    return reply.get("in_place").asBoolean() ? new LanceRowLevelOperation(this, names, reply) : null;
  }

  /** Whether updated rows have only the columns that change. */
  public boolean changesColumns() {
    return changed != null;
  }

  @Override
  public RowLevelOperation build() {
    return this;
  }

  @Override
  public Command command() {
    return info.command();
  }

  @Override
  public String description() {
    return plan.get("description").asText();
  }

  @Override
  public NamedReference[] rowId() {
    JsonNode names = plan.get("row_id");
    NamedReference[] references = new NamedReference[names.size()];
    for (int index = 0; index < references.length; index++) {
      references[index] = Expressions.column(names.get(index).asText());
    }
    return references;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new LanceScanBuilder(handle, schema, Json.map(options.asCaseSensitiveMap()), null).forChanges(reads);
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo write) {
    return new Builder(handle, info.command(), write, reads, changed);
  }

  @Override
  public RowLevelOperation on(WritableVersion version) {
    return version.newRowLevelOperationBuilder(info).build();
  }

  /** Spark wants a builder of its own between the operation and the write. */
  private record Builder(
      JsonNode handle, Command command, LogicalWriteInfo info, Collection<JsonNode> reads, JsonNode changed)
      implements DeltaWriteBuilder {
    @Override
    public LanceDeltaWrite build() {
      StructType ids = info.rowIdSchema().orElse(new StructType());
      // A DELETE brings no rows.
      StructType rows = info.schema() == null ? new StructType() : info.schema();
      ObjectNode request = Json.object();
      request.set("handle", handle);
      request.put("command", command.name());
      request.set("columns", Json.type(rows));
      request.set("row_id", Json.type(ids));
      request.set("options", Json.map(info.options().asCaseSensitiveMap()));
      request.set("sources", LanceStatement.sources());
      if (changed != null) {
        request.set("changed", changed);
      }
      return new LanceDeltaWrite(handle, reads, PythonChannel.call("row_level.plan", request), ids, rows);
    }
  }
}
