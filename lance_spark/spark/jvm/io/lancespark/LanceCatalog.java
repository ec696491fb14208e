package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.catalog.LanceCachedPlans;
import io.lancespark.catalog.LanceConstraints;
import io.lancespark.catalog.LancePartitionedTable;
import io.lancespark.catalog.LanceProcedure;
import io.lancespark.catalog.LanceStagedTable;
import io.lancespark.catalog.LanceTable;
import io.lancespark.catalog.LanceTableChanges;
import io.lancespark.catalog.TableRequests;
import io.lancespark.catalog.LanceTransaction;
import io.lancespark.functions.LanceFunctions;
import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import io.lancespark.python.PythonChannel;
import io.lancespark.python.LanceSpark;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.catalyst.util.IdentityColumn;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.TransactionalCatalogPlugin;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.catalog.transactions.Transaction;
import org.apache.spark.sql.connector.catalog.transactions.TransactionInfo;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The catalog of Lance tables: names below a root, and tables by path. Python resolves the names.
 *
 * <p>The class loads on any Spark from 4.2 on, so that it can report an unsupported version. Code for interfaces that
 * only some of these versions have is in {@link TableRequests}.
 */
public class LanceCatalog
    implements StagingTableCatalog, SupportsNamespaces, FunctionCatalog, ProcedureCatalog, TransactionalCatalogPlugin {
  private String name;
  private TableRequests tables;
  /** Shared by a catalog and its views inside transactions. */
  private final Object identity;
  /** Tables whose schema the current write evolves; null outside of transactions. */
  private final Map<Identifier, Table> evolving;
  /** Tables that the current write inserts rows with blobs into. */
  private final Set<Identifier> undecided = new HashSet<>();

  public LanceCatalog() {
    this.identity = new Object();
    this.evolving = null;
  }

  /** The view of the catalog inside the transaction of one write. */
  private LanceCatalog(LanceCatalog whole) {
    this.identity = whole.identity;
    this.name = whole.name;
    this.tables = whole.tables;
    this.evolving = new HashMap<>();
  }

  @Override
  public Transaction beginTransaction(TransactionInfo info) {
    return new LanceTransaction(new LanceCatalog(this));
  }

  /**
   * A catalog equals its views inside transactions. For a write, Spark resolves the relations of DataFrames and
   * temporary views again. It keeps the column ids that the rest of the plan refers to only if the old and the new
   * relation have equal catalogs.
   */
  @Override
  public boolean equals(Object other) {
    return other instanceof LanceCatalog that && identity == that.identity;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(identity);
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap settings) {
    LanceSpark.check();
    this.name = name;
    this.tables = new TableRequests(name, settings.asCaseSensitiveMap());
  }

  @Override
  public String name() {
    return name;
  }

  /** Query options that select a version or allow a write to change the schema, and the mark of a MERGE. */
  @Override
  public Set<String> tableStateOptionKeys() {
    return Set.of(
        "version",
        "tag",
        "branch",
        "timestamp",
        "mergeSchema",
        "columns",
        "with_row_id",
        "with_row_address",
        TableRequests.MERGE);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    JsonNode reply = ofNamespace("catalog.list_tables", namespace);
    JsonNode names = reply.get("names");
    Identifier[] found = new Identifier[names.size()];
    for (int index = 0; index < found.length; index++) {
      found[index] = Identifier.of(namespace, names.get(index).asText());
    }
    return found;
  }

  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    return load(identifier, new TableContext(null, Set.of()), Map.of());
  }

  @Override
  public Table loadTable(Identifier identifier, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return load(identifier, new TableContext(null, privileges), Map.of());
  }

  @Override
  public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
    return load(identifier, TableRequests.asOfVersion(version), Map.of());
  }

  @Override
  public Table loadTable(Identifier identifier, long micros) throws NoSuchTableException {
    return load(identifier, TableRequests.asOfTimestamp(micros), Map.of());
  }

  @Override
  public Table loadTable(Identifier identifier, TableContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    return load(identifier, context, options.asCaseSensitiveMap());
  }

  private Table load(Identifier identifier, TableContext context, Map<String, String> options)
      throws NoSuchTableException {
    // Only the write target: the relations that the statement reads were resolved before, without the new columns.
    if (evolving != null && evolving.containsKey(identifier) && !context.writePrivileges().isEmpty()) {
      return evolving.get(identifier);
    }
    Table table = tables.load(identifier, context, options);
    if (table == null) {
      throw new NoSuchTableException(identifier);
    }
    if (evolving == null || !(table instanceof LanceTable found)) {
      return table;
    }
    if (found.isUndecided()) {
      undecided.add(identifier);
    }
    return found.inEpoch(this, identifier);
  }

  @Override
  public Changelog loadChangelog(Identifier identifier, ChangelogContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    Changelog changes = tables.changes(identifier, context, options.asCaseSensitiveMap());
    if (changes == null) {
      throw new NoSuchTableException(identifier);
    }
    return changes;
  }

  /** The result of a search in a table; {@code search} has the name of the function and its arguments. */
  public Table search(Identifier identifier, ObjectNode search) throws NoSuchTableException {
    Table found = tables.search(identifier, search);
    if (found == null) {
      throw new NoSuchTableException(identifier);
    }
    return found;
  }

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return Set.of(
        TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE,
        TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT,
        TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS,
        TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS);
  }

  @Override
  public boolean tableExists(Identifier identifier) {
    return PythonChannel.call("table.exists", tables.request(identifier)).body().get("done").asBoolean();
  }

  @Override
  public Table createTable(Identifier identifier, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return made(make("table.create", identifier, info, "create", null));
  }

  @Override
  public Table createTableLike(Identifier identifier, TableInfo info, Table source)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    JsonNode like = source instanceof LanceTable table ? table.handle() : null;
    return made(make("table.create", identifier, info, "create", like));
  }

  /** The table of a description, after a statement that makes or alters it. */
  private static Table made(JsonNode description) {
    LanceTable table = new LanceTable(description);
    LanceCachedPlans.refresh(table.handle());
    return table;
  }

  @Override
  public StagedTable stageCreate(Identifier identifier, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return new LanceStagedTable(make("table.stage", identifier, info, "create", null));
  }

  @Override
  public StagedTable stageReplace(Identifier identifier, TableInfo info)
      throws NoSuchNamespaceException, NoSuchTableException {
    try {
      return new LanceStagedTable(make("table.stage", identifier, info, "replace", null));
    } catch (TableAlreadyExistsException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier identifier, TableInfo info) throws NoSuchNamespaceException {
    try {
      return new LanceStagedTable(make("table.stage", identifier, info, "create_or_replace", null));
    } catch (TableAlreadyExistsException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private JsonNode make(String op, Identifier identifier, TableInfo info, String mode, JsonNode like)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    ObjectNode request = tables.request(identifier);
    request.set("schema", Json.type(withIdentities(CharVarcharUtils.getRawSchema(info.schema()), info.columns())));
    request.set("partitioning", Json.expressions(info.partitions()));
    request.set("properties", Json.map(info.properties()));
    request.set("constraints", LanceConstraints.describe(info.constraints()));
    request.put("mode", mode);
    request.put("default_source", SQLConf.get().defaultDataSourceName());
    request.set("like", like);
    JsonNode reply = PythonChannel.call(op, request).body();
    switch (reply.get("outcome").asText()) {
      case "exists" -> throw new TableAlreadyExistsException(identifier);
      case "no_table" -> throw LanceException.sneaky(new NoSuchTableException(identifier));
      case "no_namespace" -> throw new NoSuchNamespaceException(identifier.namespace());
      default -> {
        return reply.get("table");
      }
    }
  }

  /** The schema with the identities of columns, which Spark leaves out of it, in its own metadata of fields. */
  private static StructType withIdentities(StructType schema, Column[] columns) {
    StructType found = new StructType();
    for (int index = 0; index < columns.length; index++) {
      StructField field = schema.fields()[index];
      IdentityColumnSpec identity = columns[index].identityColumnSpec();
      if (identity != null) {
        Metadata metadata =
            new MetadataBuilder()
                .withMetadata(field.metadata())
                .putLong(IdentityColumn.IDENTITY_INFO_START(), identity.getStart())
                .putLong(IdentityColumn.IDENTITY_INFO_STEP(), identity.getStep())
                .putBoolean(IdentityColumn.IDENTITY_INFO_ALLOW_EXPLICIT_INSERT(), identity.isAllowExplicitInsert())
                .build();
        field = new StructField(field.name(), field.dataType(), field.nullable(), metadata);
      }
      found = found.add(field);
    }
    return found;
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes) throws NoSuchTableException {
    ObjectNode request = tables.request(identifier);
    request.set("changes", LanceTableChanges.describe(changes));
    if (evolving != null) {
      return evolve(identifier, request);
    }
    JsonNode reply = PythonChannel.call("table.alter", request).body();
    if (!reply.get("found").asBoolean()) {
      throw new NoSuchTableException(identifier);
    }
    return made(reply.get("table"));
  }

  /** Spark calls it for REFRESH TABLE, and then refreshes what it has cached by this very name. */
  @Override
  public void invalidateTable(Identifier identifier) {
    tables.refresh(identifier);
  }

  /** Schema evolution, the only reason for a schema change inside a transaction. */
  private Table evolve(Identifier identifier, ObjectNode request) throws NoSuchTableException {
    if (evolving.get(identifier) instanceof LanceTable known) {
      request.set("handle", known.handle());
    }
    request.put("inserts_blobs", undecided.contains(identifier));
    JsonNode reply = PythonChannel.call("table.evolve", request).body();
    if (!reply.get("found").asBoolean()) {
      throw new NoSuchTableException(identifier);
    }
    Table table = LancePartitionedTable.of(reply.get("table"));
    evolving.put(identifier, table);
    return table;
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    return drop(identifier, false);
  }

  @Override
  public boolean purgeTable(Identifier identifier) {
    return drop(identifier, true);
  }

  private boolean drop(Identifier identifier, boolean purge) {
    ObjectNode request = tables.request(identifier);
    request.put("purge", purge);
    JsonNode reply = PythonChannel.call("catalog.drop_table", request).body();
    if (!reply.get("place").isNull()) {
      LanceCachedPlans.refreshPlace(reply.get("place"));
    }
    return reply.get("done").asBoolean();
  }

  @Override
  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    ObjectNode request = tables.request(from);
    request.set("new_namespace", Json.strings(to.namespace()));
    request.put("new_name", to.name());
    switch (PythonChannel.call("catalog.rename_table", request).body().get("outcome").asText()) {
      case "no_table" -> throw new NoSuchTableException(from);
      case "exists" -> throw new TableAlreadyExistsException(to);
      default -> {}
    }
  }

  @Override
  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  @Override
  public String[][] listNamespaces(String[] parent) throws NoSuchNamespaceException {
    JsonNode names = ofNamespace("catalog.list_namespaces", parent).get("names");
    String[][] found = new String[names.size()][];
    for (int index = 0; index < found.length; index++) {
      found[index] = java.util.Arrays.copyOf(parent, parent.length + 1);
      found[index][parent.length] = names.get(index).asText();
    }
    return found;
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    return Json.map(ofNamespace("catalog.namespace", namespace).get("properties"));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> properties)
      throws NamespaceAlreadyExistsException {
    ObjectNode request = tables.request();
    request.set("namespace", Json.strings(namespace));
    request.set("properties", Json.map(properties));
    if (PythonChannel.call("catalog.create_namespace", request).body().get("outcome").asText().equals("exists")) {
      throw new NamespaceAlreadyExistsException(namespace);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) throws NoSuchNamespaceException {
    Map<String, String> updates = new HashMap<>();
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty set) {
        updates.put(set.property(), set.value());
      } else if (change instanceof NamespaceChange.RemoveProperty remove) {
        updates.put(remove.property(), null);
      }
    }
    ObjectNode request = tables.request();
    request.set("namespace", Json.strings(namespace));
    request.set("updates", Json.map(updates));
    found(PythonChannel.call("catalog.alter_namespace", request).body(), namespace);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    ObjectNode request = tables.request();
    request.set("namespace", Json.strings(namespace));
    request.put("cascade", cascade);
    JsonNode reply = found(PythonChannel.call("catalog.drop_namespace", request).body(), namespace);
    if (reply.get("outcome").asText().equals("not_empty")) {
      throw new NonEmptyNamespaceException(namespace);
    }
    if (cascade) {
      LanceCachedPlans.refreshAll();
    }
    return true;
  }

  private JsonNode ofNamespace(String op, String[] namespace) throws NoSuchNamespaceException {
    ObjectNode request = tables.request();
    request.set("namespace", Json.strings(namespace));
    return found(PythonChannel.call(op, request).body(), namespace);
  }

  private static JsonNode found(JsonNode reply, String[] namespace) throws NoSuchNamespaceException {
    if (reply.get("outcome").asText().equals("no_namespace")) {
      throw new NoSuchNamespaceException(namespace);
    }
    return reply;
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    String[] names = namespace.length == 0 ? LanceFunctions.names() : new String[0];
    Identifier[] found = new Identifier[names.length];
    for (int index = 0; index < found.length; index++) {
      found[index] = Identifier.of(namespace, names[index]);
    }
    return found;
  }

  @Override
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    boolean isOurs = identifier.namespace().length == 0;
    UnboundFunction found = isOurs ? LanceFunctions.find(identifier.name()) : null;
    if (found == null) {
      throw new NoSuchFunctionException(identifier);
    }
    return found;
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    if (namespace.length > 1 || (namespace.length == 1 && !namespace[0].equals(LanceProcedure.NAMESPACE))) {
      return new Identifier[0];
    }
    String[] system = {LanceProcedure.NAMESPACE};
    return LanceProcedure.names().stream().map(each -> Identifier.of(system, each)).toArray(Identifier[]::new);
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier identifier) {
    String[] namespace = identifier.namespace();
    boolean isOurs = namespace.length == 1 && namespace[0].equalsIgnoreCase(LanceProcedure.NAMESPACE);
    UnboundProcedure found = isOurs ? LanceProcedure.find(tables, identifier.name().toLowerCase(Locale.ROOT)) : null;
    if (found == null) {
      throw new IllegalArgumentException("there is no procedure " + identifier);
    }
    return found;
  }
}
