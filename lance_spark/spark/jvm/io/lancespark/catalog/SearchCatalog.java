package io.lancespark.catalog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;

/** A catalog of Lance tables, as SQL statements and functions see it. */
public interface SearchCatalog extends CatalogPlugin {
  /** The result of a search in a table; {@code search} has the name of the function and its arguments. */
  Table search(Identifier identifier, ObjectNode search) throws NoSuchTableException;
}
