package io.lancespark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.catalog.CreatedTable;
import io.lancespark.catalog.SearchCatalog;
import io.lancespark.catalog.SessionDefinitions;
import io.lancespark.compat.ChangesRange;
import io.lancespark.compat.ExtendedCatalog;
import io.lancespark.compat.SessionConf;
import io.lancespark.compat.SparkChangelog;
import io.lancespark.functions.LanceFunctions;
import io.lancespark.python.LanceException;
import io.lancespark.python.LanceSpark;
import io.lancespark.table.Identifiers;
import java.util.ArrayList;
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
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's session catalog with Lance tables in it. Tables USING lance without a LOCATION are below the catalog's root;
 * all others, views and namespaces are those of Spark's own catalog, where each name is looked up first.
 *
 * <p>Statements on Spark's own tables do not come here. The rule {@code LanceSessionNames} looks after the names that
 * these make.
 */
public final class LanceSessionCatalog extends ExtendedCatalog implements SearchCatalog {
  /** A setting of Spark itself that has the form of one of the catalog's. */
  private static final String DEFAULT_DATABASE = "defaultDatabase";

  private LanceCatalog lance = new LanceCatalog();
  /**
   * Whether there is a root or a server for Lance tables. There is none in other sessions that read a view of such a
   * session: Spark stores the class with the view, but not the settings of the class.
   */
  private boolean hasPlace;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap settings) {
    LanceSpark.check();
    SessionDefinitions.checkName(name);
    hasPlace = settings.containsKey("root") || settings.containsKey("impl");
    if (hasPlace) {
      SessionDefinitions.checkExtension(LanceExtensions.class.getName());
    }
    Map<String, String> own = new HashMap<>(settings.asCaseSensitiveMap());
    own.keySet().removeIf(DEFAULT_DATABASE::equalsIgnoreCase);
    lance.open(name, own, this);
  }

  @Override
  public LanceSessionCatalog inTransaction() {
    LanceSessionCatalog view = new LanceSessionCatalog();
    view.lance = lance.inTransaction(view);
    view.hasPlace = hasPlace;
    view.setDelegateCatalog(delegate);
    return view;
  }

  /** Equals its views inside transactions, as {@link LanceCatalog} does. */
  @Override
  public boolean equals(Object other) {
    return other instanceof LanceSessionCatalog that && lance.equals(that.lance);
  }

  @Override
  public int hashCode() {
    return lance.hashCode();
  }

  /** What Spark may ask of the catalog for a Lance table; {@link SessionDefinitions} refuses it for others. */
  @Override
  public Set<TableCatalogCapability> capabilities() {
    Set<TableCatalogCapability> all = new HashSet<>(lance.capabilities());
    all.addAll(super.capabilities());
    return all;
  }

  // Without @Override, as in LanceCatalog.
  public Set<String> tableStateOptionKeys() {
    return lance.tableStateOptionKeys();
  }

  @Override
  public LanceCatalog lance() {
    return lance;
  }

  @Override
  public boolean isLance(Identifier identifier) {
    return hasLanceName(identifier) && !isOfSpark(identifier) && lance.tableExists(identifier);
  }

  /** Whether Lance tables may have such names; all have a namespace, and paths are no names. */
  private boolean hasLanceName(Identifier identifier) {
    return hasPlace && identifier.namespace().length > 0 && !identifier.name().contains("/");
  }

  @Override
  public boolean tableExists(Identifier identifier) {
    return isOfSpark(identifier) || isLance(identifier);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> all = new ArrayList<>(List.of(super.listTables(namespace)));
    all.addAll(otherTables(namespace));
    return all.toArray(Identifier[]::new);
  }

  @Override
  protected List<Identifier> otherTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> others = new ArrayList<>();
    for (Identifier each : lanceTables(namespace)) {
      if (!isOfSpark(each)) {
        others.add(each);
      }
    }
    return others;
  }

  /** The Lance tables in a namespace, which Lance has from its first table on. */
  private List<Identifier> lanceTables(String[] namespace) {
    try {
      return hasPlace && namespace.length > 0 ? List.of(lance.listTables(namespace)) : List.of();
    } catch (NoSuchNamespaceException none) {
      return List.of();
    }
  }

  @Override
  public Table load(Identifier identifier, State state, Map<String, String> options) throws NoSuchTableException {
    if (!hasLanceName(identifier)) {
      return loadOfSpark(identifier, state);
    }
    if (identifier.namespace().length == 1) {
      try {
        return loadOfSpark(identifier, state);
      } catch (NoSuchTableException missing) {
        return lance.load(identifier, state, options);
      }
    }
    // Longer names are of branches and metadata tables.
    return isLance(Identifiers.parent(identifier)) ? lance.load(identifier, state, options) : loadOfSpark(identifier, state);
  }

  @Override
  public SparkChangelog changes(Identifier identifier, ChangesRange range, Map<String, String> options)
      throws NoSuchTableException {
    return lance.changes(identifier, range, options);
  }

  @Override
  public Table search(Identifier identifier, ObjectNode search) throws NoSuchTableException {
    if (isOfSpark(identifier)) {
      throw LanceException.invalid(shown(identifier) + " is no Lance table; searches are for tables USING lance");
    }
    return lance.search(identifier, search);
  }

  @Override
  public Table create(Identifier identifier, Definition definition, Table like)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (tableExists(identifier)) {
      throw new TableAlreadyExistsException(identifier);
    }
    if (!SessionDefinitions.isLance(definition, like)) {
      SessionDefinitions.checkEntry(shown(identifier), definition);
      return createOfSpark(identifier, definition);
    }
    makeNamespace(identifier.namespace());
    return lance.create(identifier, definition, like);
  }

  /** Tables of Spark's own catalog cannot be staged: they are there at once, as in a session without this class. */
  @Override
  public StagedTable stage(Identifier identifier, Definition definition, String mode)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    boolean isOfSpark = isOfSpark(identifier);
    boolean isMade = SessionDefinitions.isLance(definition, null);
    boolean isTaken = isMade ? isOfSpark : !isOfSpark && isLance(identifier);
    if (mode.equals("create") && (isOfSpark || isTaken)) {
      throw new TableAlreadyExistsException(identifier);
    } else if (isTaken) {
      throw SessionDefinitions.notReplaced(shown(identifier), isOfSpark);
    }
    if (isMade) {
      makeNamespace(identifier.namespace());
      return lance.stage(identifier, definition, mode);
    }
    SessionDefinitions.checkEntry(shown(identifier), definition);
    if (isOfSpark) {
      spark().dropTable(identifier);
    } else if (mode.equals("replace")) {
      throw LanceException.sneaky(new NoSuchTableException(identifier));
    }
    return new CreatedTable(createOfSpark(identifier, definition), () -> spark().dropTable(identifier));
  }

  /** Makes the namespace of a Lance table, unless it is there. */
  private void makeNamespace(String[] namespace) throws NoSuchNamespaceException {
    if (!hasPlace) {
      throw LanceException.invalid(
          "the session catalog has no place for Lance tables; set spark.sql.catalog." + name() + ".root before the"
              + " session uses it, or write LOCATION");
    }
    if (namespace.length != 1 || !namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    if (!lance.namespaceExists(namespace)) {
      String name = SessionConf.isCaseSensitive() ? namespace[0] : namespace[0].toLowerCase(Locale.ROOT);
      try {
        lance.createNamespace(new String[] {name}, Map.of());
      } catch (NamespaceAlreadyExistsException meanwhile) {
        // Another session has made it.
      }
    }
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes) throws NoSuchTableException {
    return isOfSpark(identifier) ? super.alterTable(identifier, changes) : lance.alterTable(identifier, changes);
  }

  @Override
  public void invalidateTable(Identifier identifier) {
    if (isOfSpark(identifier) || !hasLanceName(identifier)) {
      super.invalidateTable(identifier);
    } else {
      lance.invalidateTable(identifier);
    }
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    return isLance(identifier) ? lance.dropTable(identifier) : super.dropTable(identifier);
  }

  @Override
  public boolean purgeTable(Identifier identifier) {
    return isLance(identifier) ? lance.purgeTable(identifier) : super.purgeTable(identifier);
  }

  @Override
  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    Identifier target = Identifiers.target(name(), from, to);
    if (isOfSpark(from)) {
      if (isLance(target)) {
        throw new TableAlreadyExistsException(target);
      }
      super.renameTable(from, to);
      return;
    }
    if (isOfSpark(target)) {
      throw new TableAlreadyExistsException(target);
    }
    try {
      makeNamespace(target.namespace());
    } catch (NoSuchNamespaceException missing) {
      throw LanceException.sneaky(missing);
    }
    lance.renameTable(from, target);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    boolean isInLance = hasPlace && namespace.length > 0 && lance.namespaceExists(namespace);
    if (isInLance && !cascade && lance.listTables(namespace).length + lance.listNamespaces(namespace).length > 0) {
      throw new NonEmptyNamespaceException(namespace);
    }
    // First Spark's, which refuses some, such as default: Lance tables without a database are not lost.
    boolean isDropped = super.dropNamespace(namespace, cascade);
    return isInLance && isDropped ? lance.dropNamespace(namespace, cascade) : isDropped;
  }

  /** The function; Spark asks without a namespace for those by which Lance tables are partitioned. */
  @Override
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    boolean isOurs = identifier.namespace().length == 0 && LanceFunctions.find(identifier.name()) != null;
    return isOurs ? lance.loadFunction(identifier) : super.loadFunction(identifier);
  }

  // Without @Override: Spark 4.0 has no such method.
  public Identifier[] listProcedures(String[] namespace) {
    return lance.listProcedures(namespace);
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier identifier) {
    return lance.loadProcedure(identifier);
  }

  private static String shown(Identifier identifier) {
    return LanceCatalog.SESSION + "." + String.join(".", identifier.namespace()) + "." + identifier.name();
  }
}
