package io.lancespark.compat.analysis;

import io.lancespark.catalog.SearchCatalog;
import io.lancespark.compat.Catalyst;
import io.lancespark.compat.PlanNodes;
import io.lancespark.compat.Sessions;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.ExecutedCommandExec;
import org.apache.spark.sql.execution.command.ShowTablesCommand;
import org.apache.spark.sql.execution.datasources.v2.ShowTablesExtendedExec;
import scala.collection.immutable.Seq;

/** Plans SHOW TABLE EXTENDED of the session catalog, where Spark's own command sees no Lance tables. */
public final class LanceShowTables extends SparkStrategy {
  private static final int NAME = 1;
  private static final int IS_TEMPORARY = 2;

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    boolean isMeant =
        plan instanceof ShowTablesCommand show
            && show.isExtended()
            && show.databaseName().isDefined()
            && show.tableIdentifierPattern().isDefined()
            && show.partitionSpec().isEmpty();
    return Catalyst.seq(
        isMeant && Sessions.catalogs().v2SessionCatalog() instanceof SearchCatalog catalog
            ? List.of(shown((ShowTablesCommand) plan, catalog))
            : List.of());
  }

  private static SparkPlan shown(ShowTablesCommand command, SearchCatalog catalog) {
    List<InternalRow> rows = new ArrayList<>(List.of(new ExecutedCommandExec(command).executeCollect()));
    String pattern = command.tableIdentifierPattern().get();
    String[] namespace = {command.databaseName().get()};
    if (((SupportsNamespaces) catalog.lance()).namespaceExists(namespace)) {
      SparkPlan ours =
          new ShowTablesExtendedExec(command.output(), catalog.lance(), Catalyst.seq(List.of(namespace)), pattern);
      for (InternalRow row : ours.executeCollect()) {
        Identifier identifier = Identifier.of(namespace, row.getString(NAME));
        // Spark lists its temporary views for each catalog.
        if (!row.getBoolean(IS_TEMPORARY) && catalog.isLance(identifier)) {
          rows.add(row);
        }
      }
    }
    return PlanNodes.rows(command.output(), rows, false);
  }
}
