package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.transactions.Transaction;
import org.apache.spark.sql.connector.read.Scan;

/**
 * The transaction of one write. Schema changes that Spark requests during analysis are held back and committed with the
 * rows. The write commits by itself, so this class has nothing to commit.
 */
record WriteTransaction(CatalogPlugin catalog) implements Transaction {
  @Override
  public void commit() {}

  @Override
  public void abort() {}

  @Override
  public String toString() {
    return "transaction of catalog " + catalog.name();
  }

  /** Allows cached data: the user has cached it, and the commit does not compare it with newer versions. */
  @Override
  public boolean registerScans(Scan[] scans) {
    return true;
  }

  @Override
  public void close() {}
}
