package io.lancespark.catalog;

import io.lancespark.compat.SparkCatalog;

/** A catalog of tables and views; this Spark asks catalogs for tables only. */
public interface ViewsCatalog extends SparkCatalog {
  /** Builds and sends the requests of the catalog. */
  TableRequests requests();
}
