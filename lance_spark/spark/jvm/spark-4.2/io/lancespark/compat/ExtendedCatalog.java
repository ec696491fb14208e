package io.lancespark.compat;

import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The session catalog that this Spark extends. */
public abstract class ExtendedCatalog extends SummarizedCatalog {
  @Override
  public Changelog loadChangelog(Identifier identifier, ChangelogContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    return isOfSpark(identifier)
        ? spark().loadChangelog(identifier, context, options)
        : super.loadChangelog(identifier, context, options);
  }

  @Override
  public Table createTableLike(Identifier identifier, TableInfo info, Table source)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(identifier, TableInfoCatalog.definition(info), source);
  }
}
