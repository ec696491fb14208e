package io.lancespark.compat;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;

/** The session catalog that this Spark extends. */
public abstract class ExtendedCatalog extends DelegatingCatalog {
  @Override
  public Table createTable(
      Identifier identifier, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(identifier, Definition.of(columns, partitioning, properties, List.of()), null);
  }
}
