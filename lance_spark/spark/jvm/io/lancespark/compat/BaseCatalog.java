package io.lancespark.compat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The interfaces of catalogs, reduced to methods that do not differ between versions of Spark. */
public interface BaseCatalog extends StagingTableCatalog, SupportsNamespaces, FunctionCatalog, ProcedureCatalog {
  /**
   * The state of a table that a query loads: a version, or the newest one at a time, or the newest one.
   *
   * @param version of a table or the name of a tag; null if none is chosen
   * @param micros since 1970; null if no time is chosen
   * @param privileges of the statement, by name; empty if it only reads
   */
  record State(String version, Long micros, List<String> privileges) {
    public static final State NEWEST = new State(null, null, List.of());

    static State of(Set<TableWritePrivilege> privileges) {
      return new State(null, null, privileges.stream().map(TableWritePrivilege::name).toList());
    }
  }

  /** A table as CREATE TABLE declares it; its columns have identities in Spark's metadata of fields. */
  record Definition(
      StructType schema,
      Transform[] partitioning,
      Map<String, String> properties,
      List<Constraints.Declared> constraints) {
    static Definition of(
        Column[] columns,
        Transform[] partitioning,
        Map<String, String> properties,
        List<Constraints.Declared> constraints) {
      StructType declared = Types.declared(Types.ofColumns(columns));
      StructType schema = new StructType();
      for (int index = 0; index < columns.length; index++) {
        StructField field = declared.fields()[index];
        boolean isIdentity = columns[index].identityColumnSpec() != null;
        schema = schema.add(isIdentity ? Types.withIdentity(field, columns[index].identityColumnSpec()) : field);
      }
      return new Definition(schema, partitioning, properties, constraints);
    }

    /** Whether it has generated columns or identity columns. */
    public boolean hasComputedColumns() {
      return List.of(schema.fields()).stream().anyMatch(Types::isComputed);
    }
  }

  Table load(Identifier identifier, State state, Map<String, String> options) throws NoSuchTableException;

  /** The changes of a table in a range. */
  SparkChangelog changes(Identifier identifier, ChangesRange range, Map<String, String> options)
      throws NoSuchTableException;

  /**
   * A new table.
   *
   * @param like the table whose definition it is; null if a statement declares it
   */
  Table create(Identifier identifier, Definition definition, Table like)
      throws TableAlreadyExistsException, NoSuchNamespaceException;

  /**
   * A table that becomes visible with its rows.
   *
   * @param mode {@code create}, {@code replace} or {@code create_or_replace}
   */
  StagedTable stage(Identifier identifier, Definition definition, String mode)
      throws TableAlreadyExistsException, NoSuchNamespaceException;

  /** The view of the catalog inside the transaction of one write. */
  CatalogPlugin inTransaction();

  @Override
  default Table loadTable(Identifier identifier, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return load(identifier, State.of(privileges), Map.of());
  }

  @Override
  default Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
    return load(identifier, new State(version, null, List.of()), Map.of());
  }

  @Override
  default Table loadTable(Identifier identifier, long micros) throws NoSuchTableException {
    return load(identifier, new State(null, micros, List.of()), Map.of());
  }

  /** A table that replaces one, as {@link #stage}. */
  default StagedTable stageReplacing(Identifier identifier, Definition definition, String mode)
      throws NoSuchNamespaceException {
    try {
      return stage(identifier, definition, mode);
    } catch (TableAlreadyExistsException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
