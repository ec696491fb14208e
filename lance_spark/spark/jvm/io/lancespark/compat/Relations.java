package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.Option;
import scala.collection.immutable.Seq;

/** Relations of tables in logical plans. */
public final class Relations {
  private Relations() {}

  /** A relation without the name of its table, for which Spark would take the rows once they are cached. */
  public static LogicalPlan unnamed(Table table) {
    return DataSourceV2Relation.create(table, Option.empty(), Option.empty());
  }

  public static DataSourceV2Relation with(DataSourceV2Relation relation, Table table) {
    return with(relation, table, relation.output());
  }

  public static DataSourceV2Relation with(
      DataSourceV2Relation relation, Table table, Seq<AttributeReference> columns) {
    return NodeCopies.with(relation, table, columns);
  }

  /** The tables of the relations of a plan and its subqueries. */
  static List<Table> tables(LogicalPlan plan) {
    return Catalyst.list(
        plan.<Table>collectWithSubqueries(
            Catalyst.replacing(node -> node instanceof DataSourceV2Relation relation ? relation.table() : null)));
  }

  /** The table of a relation, or of a running stream; null for other nodes. */
  public static Table table(LogicalPlan node) {
    Table table =
        node instanceof DataSourceV2Relation relation
            ? relation.table()
            : node instanceof StreamingDataSourceV2ScanRelation stream ? stream.relation().table() : null;
    return changed(table);
  }

  /** The table that a row-level operation changes; other tables stay. */
  public static Table changed(Table table) {
    return table instanceof RowLevelOperationTable operation ? operation.table() : table;
  }
}
