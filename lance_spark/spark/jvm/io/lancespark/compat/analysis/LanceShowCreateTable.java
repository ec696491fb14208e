package io.lancespark.compat.analysis;

import io.lancespark.catalog.LanceTable;
import io.lancespark.compat.Catalyst;
import io.lancespark.compat.Rows;
import io.lancespark.compat.PlanNodes;
import io.lancespark.compat.Types;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ShowCreateTable;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.ShowCreateTableExec;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;

/** Plans SHOW CREATE TABLE for tables with generated and identity columns, whose values Spark does not print. */
public final class LanceShowCreateTable extends SparkStrategy {
  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    boolean isPrinted =
        plan instanceof ShowCreateTable show
            && !show.asSerde()
            && show.child() instanceof ResolvedTable resolved
            && resolved.table() instanceof LanceTable table
            && List.of(table.columns()).stream().anyMatch(column -> !values(table, column).isEmpty());
    return Catalyst.seq(isPrinted ? List.of(printed((ShowCreateTable) plan)) : List.of());
  }

  private static SparkPlan printed(ShowCreateTable statement) {
    ResolvedTable table = (ResolvedTable) statement.child();
    String text = new ShowCreateTableExec(statement.output(), table).executeCollect()[0].getString(0);
    List<String> printed = new ArrayList<>();
    List<String> whole = new ArrayList<>();
    LanceTable described = (LanceTable) table.table();
    Column[] columns = described.columns();
    StructType shownTypes = Types.shown(columns);
    for (int index = 0; index < columns.length; index++) {
      String definition = shownTypes.fields()[index].toDDL();
      printed.add(definition);
      boolean isNotNull = described.isNotNull(columns[index].name());
      whole.add(definition + (isNotNull ? " NOT NULL" : "") + values(described, columns[index]));
    }
    String shown = text.replace(listed(printed), listed(whole));
    return PlanNodes.rows(statement.output(), List.of(Rows.of(UTF8String.fromString(shown))), false);
  }

  /** What the definition of a column says of values that are computed; empty if none are. */
  private static String values(LanceTable table, Column column) {
    IdentityColumnSpec identity = column.identityColumnSpec();
    if (identity != null) {
      String kind = identity.isAllowExplicitInsert() ? "BY DEFAULT" : "ALWAYS";
      return String.format(
          " GENERATED %s AS IDENTITY (START WITH %d INCREMENT BY %d)", kind, identity.getStart(), identity.getStep());
    }
    String expression = table.generationOf(column.name());
    return expression == null ? "" : " GENERATED ALWAYS AS (" + expression + ")";
  }

  /** Columns as Spark lists them. */
  private static String listed(List<String> columns) {
    return "(\n  " + String.join(",\n  ", columns);
  }
}
