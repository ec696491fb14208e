package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Capabilities;
import io.lancespark.compat.Constraints;
import io.lancespark.compat.Sessions;
import io.lancespark.compat.SparkTable;
import io.lancespark.compat.Types;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.read.LanceScanBuilder;
import io.lancespark.streaming.LanceEpochWriteBuilder;
import io.lancespark.streaming.LanceMicroBatchStream;
import io.lancespark.streaming.LanceSinkColumns;
import io.lancespark.streaming.LanceStreams;
import io.lancespark.table.LanceCachedPlans;
import io.lancespark.table.WritableVersion;
import io.lancespark.write.LanceRowLevelOperation;
import io.lancespark.write.LanceWriteBuilder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A pinned version of a table, from a description that Python returned. */
public class LanceTable implements SparkTable, WritableVersion {
  /** The name of the rule that decides which columns and types the target of an INSERT has. */
  public static final String INSERT_RULE = "io.lancespark.InsertTargets";

  private final JsonNode description;
  private final StructType schema;
  private final boolean hasCatalog;

  public LanceTable(JsonNode description) {
    this(description, true);
  }

  /**
   * @param hasCatalog whether Spark can find functions of the table's catalog
   */
  LanceTable(JsonNode description, boolean hasCatalog) {
    this.description = description;
    this.schema = Json.schema(description.get("schema"));
    this.hasCatalog = hasCatalog;
  }

  /** For the description of a query. */
  @Override
  public String toString() {
    return "lance " + name();
  }

  /** What the last epoch of the thread's streaming query has written. */
  @Override
  public Map<String, String> metrics() {
    return LanceEpochWriteBuilder.metrics();
  }

  @Override
  public final JsonNode handle() {
    return description.get("handle");
  }

  @Override
  public final boolean isPinned() {
    return description.path("pinned").asBoolean();
  }

  /** A version of this table that Python has described otherwise. */
  LanceTable withDescription(JsonNode described) {
    return new LanceTable(described);
  }

  @Override
  public final LanceTable newest() {
    ObjectNode request = Json.object();
    request.set("handle", handle());
    JsonNode reply = PythonChannel.call("table.newest", request).body();
    ObjectNode described = description.deepCopy();
    described.set("handle", reply.get("handle"));
    if (version() != null) {
      described.set("version", reply.get("version"));
    }
    return withDescription(described);
  }

  /** This version, as the streaming query of this thread may see it while it writes to {@code identifier}. */
  public final LanceTable inEpoch(CatalogPlugin catalog, Identifier identifier) {
    return withDescription(LanceSinkColumns.hideAdded(description, catalog, identifier));
  }

  @Override
  public String name() {
    return description.get("name").asText();
  }

  // Without @Override, as the next one: Spark 4.0 has neither.
  public String id() {
    return description.path("id").asText(null);
  }

  public String version() {
    return description.path("version").asText(null);
  }

  /** Abstract in Spark 4.0; later versions ask for the columns. */
  @Override
  public StructType schema() {
    return Types.ofColumns(columns());
  }

  @Override
  public Column[] columns() {
    Column[] columns = new Column[schema.size()];
    StructType declared = Types.declared(schema);
    for (int index = 0; index < columns.length; index++) {
      StructField field = declared.fields()[index];
      String comment = field.getComment().isDefined() ? field.getComment().get() : null;
      String generated = description.path("declares_generated").asBoolean() ? generationOf(field.name()) : null;
      JsonNode identity = description.path("identities").path(field.name());
      // With the DEFAULT of the column, where Spark keeps it.
      String metadata = field.metadata().json();
      columns[index] =
          identity.isObject()
              ? Column.create(field.name(), field.dataType(), field.nullable(), comment, spec(identity), metadata)
          : generated == null
              ? Column.create(field.name(), field.dataType(), field.nullable(), comment, metadata)
              : Column.create(field.name(), field.dataType(), field.nullable(), comment, generated, metadata);
    }
    return columns;
  }

  private static IdentityColumnSpec spec(JsonNode identity) {
    return new IdentityColumnSpec(
        identity.get("start").asLong(), identity.get("step").asLong(), identity.get("allows_explicit").asBoolean());
  }

  /** Whether an identity column was declared NOT NULL, which Spark does not know, because statements leave it out. */
  public final boolean isNotNull(String identityColumn) {
    return !description.path("identities").path(identityColumn).path("nullable").asBoolean(true);
  }

  /** Identity columns whose values a statement cannot choose. */
  public final List<String> fixedColumns() {
    List<String> items = new ArrayList<>();
    description.path("fixed_columns").forEach(name -> items.add(name.asText()));
    return items;
  }

  /** The expression of a generated column, whether Spark knows it or not; null of others. */
  public final String generationOf(String column) {
    return description.path("generated").path(column).asText(null);
  }

  /** Expressions by column that Spark does not know of, because it would refuse the statement. */
  public final Map<String, String> computed() {
    return Json.map(description.path("computed"));
  }

  @Override
  public List<Constraints.Declared> checks() {
    return LanceConstraints.checks(description.path("constraints"));
  }

  public final StructType sparkSchema() {
    return schema;
  }

  @Override
  public Transform[] partitioning() {
    return Json.transforms(description.path("partitioning"));
  }

  @Override
  public Map<String, String> properties() {
    return Json.map(description.get("properties"));
  }

  @Override
  public Set<TableCapability> capabilities() {
    List<String> names = new ArrayList<>();
    description.get("capabilities").forEach(name -> names.add(name.asText()));
    Set<TableCapability> capabilities = Capabilities.named(TableCapability.class, names);
    if (isUndecided() && Sessions.hasResolutionRule(INSERT_RULE)) {
      capabilities.add(TableCapability.ACCEPT_ANY_SCHEMA);
    }
    return capabilities;
  }

  /** Whether it is still to be seen which blob columns get bytes or descriptions, and which columns the rows lack. */
  public final boolean isUndecided() {
    return description.path("described").isObject() || fillsColumns();
  }

  /** Whether the rows of an INSERT get the columns that they lack from a rule of the connector. */
  public final boolean fillsColumns() {
    return description.path("fills_columns").asBoolean();
  }

  /** The same version, which takes descriptions in some columns, and bytes in its other blob columns. */
  public final LanceTable describedIn(Set<String> names) {
    ObjectNode decided = description.deepCopy();
    Map<String, JsonNode> others = new HashMap<>();
    decided.remove("fills_columns");
    decided.remove("described").path("fields").forEach(field -> others.put(field.get("name").asText(), field));
    ArrayNode fields = (ArrayNode) decided.get("schema").get("fields");
    for (int index = 0; index < fields.size(); index++) {
      String name = fields.get(index).get("name").asText();
      if (names.contains(name) && others.containsKey(name)) {
        fields.set(index, others.get(name));
      }
    }
    return withDescription(decided);
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    JsonNode columns = description.get("metadata_columns");
    MetadataColumn[] items = new MetadataColumn[columns.size()];
    for (int index = 0; index < items.length; index++) {
      items[index] = new SystemColumn(columns.get(index));
    }
    return items;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    StateOptions.check(handle(), options);
    ObjectNode chosen = Json.map(options.asCaseSensitiveMap());
    return new LanceScanBuilder(
        handle(),
        schema,
        chosen,
        (columns, checkpoint) -> new LanceMicroBatchStream(handle(), columns, chosen, null, checkpoint));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    LanceStreams.refuseContinuous();
    if (LanceEpochWriteBuilder.isEpoch(info)) {
      return LanceEpochWriteBuilder.of(handle(), name(), info, hasCatalog);
    }
    StateOptions.check(handle(), info.options());
    return new LanceWriteBuilder(handle(), schema, info);
  }

  @Override
  public boolean truncateTable() {
    ObjectNode request = Json.object();
    request.set("handle", handle());
    change("table.truncate", request);
    return true;
  }

  @Override
  public boolean canDeleteWhere(Predicate[] predicates) {
    return PythonChannel.call("row_level.can_delete", delete(predicates)).body().get("taken").asBoolean();
  }

  @Override
  public void deleteWhere(Predicate[] predicates) {
    change("row_level.delete", delete(predicates));
  }

  private void change(String op, ObjectNode request) {
    try {
      PythonChannel.call(op, request);
    } finally {
      LanceCachedPlans.refresh(handle());
    }
  }

  private ObjectNode delete(Predicate[] predicates) {
    ObjectNode request = Json.object();
    request.set("handle", handle());
    request.set("predicates", Json.expressions(predicates));
    return request;
  }

  @Override
  public boolean canEvolve(TableChange.ColumnChange change) {
    ObjectNode request = Json.object();
    request.set("handle", handle());
    request.set("changes", LanceTableChanges.describe(new TableChange[] {change}));
    return PythonChannel.call("row_level.can_evolve", request).body().get("taken").asBoolean();
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    return new LanceRowLevelOperation(handle(), schema, info);
  }

  /** Same version with the same view of it. Spark loads tables for each query and looks up cached data by equality. */
  @Override
  public boolean equals(Object other) {
    return other instanceof LanceTable that && description.equals(that.description);
  }

  @Override
  public int hashCode() {
    return handle().hashCode();
  }

  private record SystemColumn(JsonNode column) implements MetadataColumn {
    @Override
    public String name() {
      return column.get("name").asText();
    }

    @Override
    public DataType dataType() {
      return Json.type(column.get("type"));
    }

    @Override
    public boolean isNullable() {
      return column.get("nullable").asBoolean();
    }

    @Override
    public String comment() {
      return column.get("comment").asText();
    }
  }
}
