package io.lancespark.compat;

import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/** Spark's session catalog with other tables beside its own. All ways to load a table lead to {@link #load}. */
public abstract class DelegatingCatalog extends DelegatingCatalogExtension implements SparkCatalog {
  /** The other tables in a namespace. */
  protected abstract List<Identifier> otherTables(String[] namespace) throws NoSuchNamespaceException;

  /** Whether Spark's own catalog has a table or view of this name. */
  protected boolean isOfSpark(Identifier identifier) {
    return identifier.namespace().length == 1 && spark().tableExists(identifier);
  }

  protected TableCatalog spark() {
    return (TableCatalog) delegate;
  }

  /** The table or view of Spark's own catalog. */
  protected Table loadOfSpark(Identifier identifier, State state) throws NoSuchTableException {
    if (state.version() != null) {
      return spark().loadTable(identifier, state.version());
    } else if (state.micros() != null) {
      return spark().loadTable(identifier, state.micros());
    }
    Set<TableWritePrivilege> privileges = EnumSet.noneOf(TableWritePrivilege.class);
    state.privileges().forEach(name -> privileges.add(TableWritePrivilege.valueOf(name)));
    Table table = spark().loadTable(identifier, privileges);
    return table instanceof V1Table entry && isOfConnector(entry) ? loadByConnector(identifier) : table;
  }

  /** Whether an entry is of a source with an interface for connectors, such as one USING lance with a LOCATION. */
  private static boolean isOfConnector(V1Table entry) {
    Option<String> provider = entry.catalogTable().provider();
    return provider.isDefined() && DataSourceV2Utils.getTableProvider(provider.get(), SQLConf.get()).isDefined();
  }

  /** The table that the source of an entry loads. Spark's catalog asks the source only if no class extends the catalog. */
  private Table loadByConnector(Identifier identifier) throws NoSuchTableException {
    SQLConf unextended = SQLConf.get().clone();
    unextended.setConfString(SQLConf.V2_SESSION_CATALOG_IMPLEMENTATION().key(), "builtin");
    return SQLConf.withExistingConf(
        unextended,
        () -> {
          try {
            return spark().loadTable(identifier);
          } catch (NoSuchTableException dropped) {
            throw SparkError.sneaky(dropped);
          }
        });
  }

  /** Makes a table in Spark's own catalog. */
  protected Table createOfSpark(Identifier identifier, Definition definition)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    Table table =
        spark().createTable(
            identifier,
            Shims.columns(definition.schema()),
            definition.partitioning(),
            definition.properties());
    try {
      return table == null ? loadOfSpark(identifier, State.NEWEST) : table;
    } catch (NoSuchTableException dropped) {
      throw new IllegalStateException(dropped);
    }
  }

  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    return load(identifier, State.NEWEST, Map.of());
  }

  @Override
  public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
    return load(identifier, new State(version, null, List.of()), Map.of());
  }

  @Override
  public Table loadTable(Identifier identifier, long micros) throws NoSuchTableException {
    return load(identifier, new State(null, micros, List.of()), Map.of());
  }
}
