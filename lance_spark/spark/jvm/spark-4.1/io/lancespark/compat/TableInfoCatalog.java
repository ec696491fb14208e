package io.lancespark.compat;

import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;

/** A catalog that gets new tables as {@link TableInfo}, as Spark hands them over from 4.1 on. */
public interface TableInfoCatalog extends BaseCatalog {
  static Definition definition(TableInfo info) {
    return Definition.of(info.columns(), info.partitions(), info.properties(), Constraints.of(info.constraints()));
  }

  @Override
  default Table createTable(Identifier identifier, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(identifier, definition(info), null);
  }

  @Override
  default StagedTable stageCreate(Identifier identifier, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stage(identifier, definition(info), "create");
  }

  @Override
  default StagedTable stageReplace(Identifier identifier, TableInfo info)
      throws NoSuchNamespaceException, NoSuchTableException {
    return stageReplacing(identifier, definition(info), "replace");
  }

  @Override
  default StagedTable stageCreateOrReplace(Identifier identifier, TableInfo info) throws NoSuchNamespaceException {
    return stageReplacing(identifier, definition(info), "create_or_replace");
  }
}
