package io.lancespark.catalog;

import io.lancespark.LanceCatalog;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.transactions.Transaction;
import org.apache.spark.sql.connector.read.Scan;

/**
 * A statement that writes: what it asks of the catalog while it is analysed, and what its rows are to bring, belong
 * together. Nothing has happened before the rows are committed, which the write does by itself.
 */
public final class LanceTransaction implements Transaction {
  private final LanceCatalog catalog;

  public LanceTransaction(LanceCatalog catalog) {
    this.catalog = catalog;
  }

  @Override
  public CatalogPlugin catalog() {
    return catalog;
  }

  @Override
  public void commit() {}

  @Override
  public void abort() {}

  @Override
  public String toString() {
    return "transaction of catalog " + catalog.name();
  }

  /** Cached rows may be used: a user has kept them, and the commit does not compare them with newer versions. */
  @Override
  public boolean registerScans(Scan[] scans) {
    return true;
  }

  @Override
  public void close() {}
}
