package io.lancespark.compat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.TimeTravel;
import org.apache.spark.sql.connector.catalog.TransactionalCatalogPlugin;
import org.apache.spark.sql.connector.catalog.transactions.Transaction;
import org.apache.spark.sql.connector.catalog.transactions.TransactionInfo;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The interfaces of catalogs that this Spark has, reduced to methods that do not differ between its versions. */
public interface SparkCatalog
    extends StagingTableCatalog, SupportsNamespaces, FunctionCatalog, ProcedureCatalog, TransactionalCatalogPlugin {
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
      StructType schema, Transform[] partitioning, Map<String, String> properties, List<Constraints.Declared> constraints) {
    static Definition of(TableInfo info) {
      StructType declared = Types.declared(info.schema());
      StructType schema = new StructType();
      Column[] columns = info.columns();
      for (int index = 0; index < columns.length; index++) {
        StructField field = declared.fields()[index];
        boolean isIdentity = columns[index].identityColumnSpec() != null;
        schema = schema.add(isIdentity ? Types.withIdentity(field, columns[index].identityColumnSpec()) : field);
      }
      return new Definition(schema, info.partitions(), info.properties(), Constraints.of(info.constraints()));
    }
  }

  Table load(Identifier identifier, State state, Map<String, String> options) throws NoSuchTableException;

  /** The changes of a table in a range. */
  SparkChangelog changes(Identifier identifier, SparkChangelog.Range range, Map<String, String> options)
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
  default Transaction beginTransaction(TransactionInfo info) {
    return new WriteTransaction(inTransaction());
  }

  @Override
  default Table loadTable(Identifier identifier) throws NoSuchTableException {
    return load(identifier, State.NEWEST, Map.of());
  }

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

  @Override
  default Table loadTable(Identifier identifier, TableContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    TimeTravel travel = context.timeTravel().orElse(null);
    String version = travel instanceof TimeTravel.AsOfVersion chosen ? chosen.version() : null;
    Long micros = travel instanceof TimeTravel.AsOfTimestamp chosen ? (Long) chosen.micros() : null;
    State state = new State(version, micros, State.of(context.writePrivileges()).privileges());
    return load(identifier, state, options.asCaseSensitiveMap());
  }

  @Override
  default Changelog loadChangelog(Identifier identifier, ChangelogContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    return changes(identifier, SparkChangelog.Range.of(context), options.asCaseSensitiveMap());
  }

  @Override
  default Table createTable(Identifier identifier, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(identifier, Definition.of(info), null);
  }

  @Override
  default Table createTableLike(Identifier identifier, TableInfo info, Table source)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(identifier, Definition.of(info), source);
  }

  @Override
  default StagedTable stageCreate(Identifier identifier, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stage(identifier, Definition.of(info), "create");
  }

  @Override
  default StagedTable stageReplace(Identifier identifier, TableInfo info)
      throws NoSuchNamespaceException, NoSuchTableException {
    return replacing(identifier, info, "replace");
  }

  @Override
  default StagedTable stageCreateOrReplace(Identifier identifier, TableInfo info) throws NoSuchNamespaceException {
    return replacing(identifier, info, "create_or_replace");
  }

  private StagedTable replacing(Identifier identifier, TableInfo info, String mode) throws NoSuchNamespaceException {
    try {
      return stage(identifier, Definition.of(info), mode);
    } catch (TableAlreadyExistsException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
