package io.lancespark.compat;

import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Identifier;
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

  /**
   * A relation as it reads its table.
   *
   * @param identifier of the table; null if it has none
   * @param options the names of its options
   * @param hasTimeTravel whether a clause of SQL names the version
   */
  public record Reading(Table table, Identifier identifier, Set<String> options, boolean hasTimeTravel) {}

  public static Reading reading(DataSourceV2Relation relation) {
    return new Reading(
        relation.table(),
        relation.identifier().getOrElse(() -> null),
        relation.options().keySet(),
        NodeCopies.hasTimeTravel(relation));
  }

  /** The relations of a plan and its subqueries for which {@code isChosen} is true. */
  public static List<Reading> readings(LogicalPlan plan, Predicate<Reading> isChosen) {
    return Catalyst.list(
        plan.<Reading>collectWithSubqueries(
            Catalyst.replacing(
                node -> {
                  Reading reading = node instanceof DataSourceV2Relation relation ? reading(relation) : null;
                  return reading != null && isChosen.test(reading) ? reading : null;
                })));
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
