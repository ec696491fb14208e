package io.lancespark.compat;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableSummary;

/** A session catalog that says of which types its tables are, as Spark asks from 4.1 on. */
abstract class SummarizedCatalog extends DelegatingCatalog {
  /** The tables and their types. Spark's default would load each of ours. */
  @Override
  public TableSummary[] listTableSummaries(String[] namespace) throws NoSuchNamespaceException, NoSuchTableException {
    List<TableSummary> summaries = new ArrayList<>(List.of(spark().listTableSummaries(namespace)));
    for (Identifier each : otherTables(namespace)) {
      summaries.add(TableSummary.of(each, TableSummary.MANAGED_TABLE_TYPE));
    }
    return summaries.toArray(TableSummary[]::new);
  }
}
