package io.lancespark.compat;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;

/** The interfaces of catalogs that this Spark has. */
public interface SparkCatalog extends BaseCatalog {
  @Override
  default Table createTable(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(identifier, Definition.of(columns, partitioning, properties, List.of()), null);
  }

  @Override
  default StagedTable stageCreate(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stage(identifier, Definition.of(columns, partitioning, properties, List.of()), "create");
  }

  @Override
  default StagedTable stageReplace(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    return stageReplacing(identifier, Definition.of(columns, partitioning, properties, List.of()), "replace");
  }

  @Override
  default StagedTable stageCreateOrReplace(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws NoSuchNamespaceException {
    return stageReplacing(identifier, Definition.of(columns, partitioning, properties, List.of()), "create_or_replace");
  }
}
