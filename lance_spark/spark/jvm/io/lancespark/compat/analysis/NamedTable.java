package io.lancespark.compat.analysis;

import io.lancespark.catalog.SearchCatalog;
import io.lancespark.compat.Sessions;
import io.lancespark.python.LanceException;
import java.util.List;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;

/** A table of a Lance catalog that an argument names. */
record NamedTable(SearchCatalog catalog, Identifier identifier) {
  /** The table with a name as SQL writes it, in the current catalog and namespace unless it names others. */
  static NamedTable of(String name) throws ParseException {
    List<String> parts = Sessions.nameParts(name);
    CatalogManager catalogs = Sessions.catalogs();
    boolean namesCatalog = parts.size() > 1 && catalogs.isCatalogRegistered(parts.get(0));
    CatalogPlugin catalog = namesCatalog ? catalogs.catalog(parts.get(0)) : catalogs.currentCatalog();
    List<String> rest = namesCatalog ? parts.subList(1, parts.size()) : parts;
    if (!(catalog instanceof SearchCatalog lance)) {
      throw LanceException.invalid(
          name + " is in the catalog " + catalog.name() + ", which is no Lance catalog; name one, as in 'lance.db.t'");
    }
    String last = rest.get(rest.size() - 1);
    boolean isRelative = rest.size() == 1 && !namesCatalog && !last.contains("/");
    String[] namespace =
        isRelative ? catalogs.currentNamespace() : rest.subList(0, rest.size() - 1).toArray(new String[0]);
    return new NamedTable(lance, Identifier.of(namespace, last));
  }
}
