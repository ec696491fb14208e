package io.lancespark.catalog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** A catalog of Lance tables, as SQL statements and functions see it. */
public interface SearchCatalog extends CatalogPlugin {
  /** The result of a search in a table; {@code search} has the name of the function and its arguments. */
  Table search(Identifier identifier, ObjectNode search) throws NoSuchTableException;

  /** Whether a name means a Lance table. All names of a catalog do that has no other tables. */
  default boolean isLance(Identifier identifier) {
    return true;
  }

  /** The catalog of nothing but Lance tables: this one, or the part of the session catalog. */
  TableCatalog lance();
}
