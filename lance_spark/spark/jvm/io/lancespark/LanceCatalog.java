package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.catalog.ForeignProcedures;
import io.lancespark.catalog.LanceConstraints;
import io.lancespark.catalog.LancePartitionedTable;
import io.lancespark.catalog.LanceProcedure;
import io.lancespark.catalog.LanceStagedTable;
import io.lancespark.catalog.LanceTable;
import io.lancespark.catalog.LanceTableChanges;
import io.lancespark.catalog.SearchCatalog;
import io.lancespark.catalog.TableRequests;
import io.lancespark.catalog.ViewsCatalog;
import io.lancespark.compat.Capabilities;
import io.lancespark.compat.SessionConf;
import io.lancespark.compat.ChangesRange;
import io.lancespark.compat.PathWrites;
import io.lancespark.compat.RelationLookups;
import io.lancespark.compat.SparkChangelog;
import io.lancespark.functions.LanceFunctions;
import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import io.lancespark.python.LanceSpark;
import io.lancespark.python.PythonChannel;
import io.lancespark.table.LanceCachedPlans;
import io.lancespark.table.LanceIdentifier;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The catalog of Lance tables: names below a root, and tables by path. Python resolves the names. */
public class LanceCatalog implements ViewsCatalog, SearchCatalog {
  private static final List<String> CAPABILITIES =
      List.of(
          "SUPPORT_COLUMN_DEFAULT_VALUE",
          "SUPPORT_TABLE_CONSTRAINT",
          "SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS",
          "SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS");

  /** Spark's own catalog, which has tables of all formats. */
  static final String SESSION = "spark_catalog";

  private String name;
  private TableRequests tables;
  /** The catalog as Spark knows it: this one, or the session catalog that it is a part of. */
  private CatalogPlugin registered = this;
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
  public LanceCatalog inTransaction() {
    return new LanceCatalog(this);
  }

  /** The same for a part of the session catalog, whose own view is {@code registered}. */
  LanceCatalog inTransaction(CatalogPlugin registered) {
    LanceCatalog view = inTransaction();
    view.registered = registered;
    return view;
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
    if (name.equalsIgnoreCase(SESSION)) {
      throw LanceException.invalid(
          "LanceCatalog cannot be " + SESSION + ", where it would hide the tables of all other formats; set"
              + " spark.sql.catalog." + SESSION + " to io.lancespark.LanceSessionCatalog, as"
              + " lance_spark.configure(builder, catalog=\"" + SESSION + "\", root=...) does");
    }
    open(name, settings.asCaseSensitiveMap(), this);
  }

  /**
   * Opens the names of a catalog.
   *
   * @param registered the catalog that Spark knows by this name
   */
  void open(String name, Map<String, String> settings, CatalogPlugin registered) {
    this.name = name;
    this.tables = new TableRequests(name, settings);
    this.registered = registered;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public TableRequests requests() {
    return tables;
  }

  /**
   * Query options that select a version or allow a write to change the schema. Without {@code @Override}: it is
   * new in Spark 4.3.
   */
  public Set<String> tableStateOptionKeys() {
    return Set.of(
        "version",
        "tag",
        "branch",
        "timestamp",
        "mergeSchema",
        "columns",
        "with_row_id",
        "with_row_address");
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    JsonNode reply = ofNamespace("catalog.list_tables", namespace);
    JsonNode names = reply.get("names");
    Identifier[] result = new Identifier[names.size()];
    for (int index = 0; index < result.length; index++) {
      result[index] = Identifier.of(namespace, names.get(index).asText());
    }
    return result;
  }

  /** Also the target of {@code save(path)}, loaded for an append; a rule of the session extension knows overwrites. */
  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    boolean isWritten = identifier instanceof LanceIdentifier && PathWrites.isLoading();
    return load(identifier, isWritten ? new State(null, null, List.of("INSERT")) : State.NEWEST, Map.of());
  }

  @Override
  public Table load(Identifier identifier, State state, Map<String, String> options) throws NoSuchTableException {
    Table table = find(identifier, state, options);
    if (table == null) {
      throw missing(identifier, state, options);
    }
    return table;
  }

  /** A table; null if there is none. Without {@code @Override}: Spark has views of catalogs from 4.3 on. */
  public Table find(Identifier identifier, State state, Map<String, String> options) {
    // Only the write target: the relations that the statement reads were resolved before, without the new columns.
    if (evolving != null && evolving.containsKey(identifier) && !state.privileges().isEmpty()) {
      return evolving.get(identifier);
    }
    Table table = tables.load(identifier, state, options);
    if (evolving == null || !(table instanceof LanceTable result)) {
      return table;
    }
    if (result.isUndecided()) {
      undecided.add(identifier);
    }
    return result.inEpoch(registered, identifier);
  }

  /** The error for a table that does not exist: Spark's own, except where that would mislead. */
  public NoSuchTableException missing(Identifier identifier, State state, Map<String, String> options) {
    if (RelationLookups.isRunning()) {
      tables.checkMissing(identifier, state, options);
      // Spark goes on with lance.t as a file format and a path, but for the target of an INSERT.
      boolean isTakenForPath = name.equals(LanceIdentifier.SOURCE) && !state.privileges().equals(List.of("INSERT"));
      if (isTakenForPath && identifier.namespace().length == 0) {
        throw LanceException.tableNotFound(name, identifier.name());
      }
    }
    return new NoSuchTableException(identifier);
  }

  @Override
  public SparkChangelog changes(Identifier identifier, ChangesRange range, Map<String, String> options)
      throws NoSuchTableException {
    SparkChangelog changes = tables.changes(identifier, range, options);
    if (changes == null) {
      throw new NoSuchTableException(identifier);
    }
    return changes;
  }

  @Override
  public Table search(Identifier identifier, ObjectNode search) throws NoSuchTableException {
    Table result = tables.search(identifier, search);
    if (result == null) {
      throw new NoSuchTableException(identifier);
    }
    return result;
  }

  @Override
  public LanceCatalog lance() {
    return this;
  }

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return Capabilities.named(TableCatalogCapability.class, CAPABILITIES);
  }

  @Override
  public boolean tableExists(Identifier identifier) {
    return PythonChannel.call("table.exists", tables.request(identifier)).body().get("done").asBoolean();
  }

  @Override
  public Table create(Identifier identifier, Definition definition, Table like)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    JsonNode copied = like instanceof LanceTable table ? table.handle() : null;
    return made(make("table.create", identifier, definition, "create", copied));
  }

  /** The table of a description, after a statement that makes or alters it. */
  private static Table made(JsonNode description) {
    LanceTable table = new LanceTable(description);
    LanceCachedPlans.refresh(table.handle());
    return table;
  }

  @Override
  public StagedTable stage(Identifier identifier, Definition definition, String mode)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return new LanceStagedTable(make("table.stage", identifier, definition, mode, null));
  }

  private JsonNode make(String op, Identifier identifier, Definition definition, String mode, JsonNode like)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    ObjectNode request = tables.request(identifier);
    request.set("schema", Json.type(definition.schema()));
    request.set("partitioning", Json.expressions(definition.partitioning()));
    request.set("properties", Json.map(definition.properties()));
    request.set("constraints", LanceConstraints.describe(definition.constraints()));
    request.put("mode", mode);
    request.put("default_source", SessionConf.defaultSource());
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
    if (evolving.get(identifier) instanceof LanceTable evolved) {
      request.set("handle", evolved.handle());
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
    String[][] result = new String[names.size()][];
    for (int index = 0; index < result.length; index++) {
      result[index] = java.util.Arrays.copyOf(parent, parent.length + 1);
      result[index][parent.length] = names.get(index).asText();
    }
    return result;
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
    Identifier[] result = new Identifier[names.length];
    for (int index = 0; index < result.length; index++) {
      result[index] = Identifier.of(namespace, names[index]);
    }
    return result;
  }

  @Override
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    boolean isOurs = identifier.namespace().length == 0;
    UnboundFunction result = isOurs ? LanceFunctions.find(identifier.name()) : null;
    if (result == null) {
      throw new NoSuchFunctionException(identifier);
    }
    return result;
  }

  // Without @Override: Spark 4.0 has no such method.
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
    UnboundProcedure result = isOurs ? LanceProcedure.find(tables, identifier.name().toLowerCase(Locale.ROOT)) : null;
    if (result == null) {
      throw LanceException.invalid(ForeignProcedures.missing(name, identifier.name()));
    }
    return result;
  }
}
