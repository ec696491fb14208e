package io.lancespark.compat;

import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TransactionalCatalogPlugin;
import org.apache.spark.sql.connector.catalog.transactions.Transaction;
import org.apache.spark.sql.connector.catalog.transactions.TransactionInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog with changelogs, transactions and CREATE TABLE LIKE, which Spark has from 4.2 on. */
public interface ChangelogCatalog extends TableInfoCatalog, TransactionalCatalogPlugin {
  @Override
  default Transaction beginTransaction(TransactionInfo info) {
    return new WriteTransaction(inTransaction());
  }

  @Override
  default Changelog loadChangelog(Identifier identifier, ChangelogContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    return changes(identifier, SparkChangelog.range(context), options.asCaseSensitiveMap());
  }

  @Override
  default Table createTableLike(Identifier identifier, TableInfo info, Table source)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(identifier, TableInfoCatalog.definition(info), source);
  }
}
