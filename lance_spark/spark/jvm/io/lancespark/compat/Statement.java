package io.lancespark.compat;

import java.util.List;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * The statement that runs in this thread and writes.
 *
 * <p>It is found by the execution that Spark has registered, whose plan is analysed and not optimized yet: SQL,
 * DataFrames and Connect all end there. That plan can be run again with newer versions of the target in place of those
 * it was analysed with. The columns of all relations stay, so nothing has to be resolved again.
 */
public final class Statement {
  private final QueryExecution execution;
  private final V2WriteCommand command;

  private Statement(QueryExecution execution, V2WriteCommand command) {
    this.execution = execution;
    this.command = command;
  }

  /** The tables that the statement of this thread reads, whether it writes or not. */
  public static List<Table> tables() {
    QueryExecution execution = execution();
    return execution == null
        ? List.of()
        : Catalyst.list(execution.logical().<Table>collectWithSubqueries(Catalyst.replacing(Relations::table)));
  }

  private static QueryExecution execution() {
    String id = SparkContext.getOrCreate().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    return id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
  }

  /** The statement of this thread; null if there is none that can be run again. */
  public static Statement running() {
    QueryExecution execution = execution();
    return execution != null && execution.logical() instanceof V2WriteCommand command
        ? new Statement(execution, command)
        : null;
  }

  /** Whether it is a MERGE that only inserts, which is written as an append is. */
  public boolean isInsertingMerge() {
    return Shims.isInsertOnlyMerge((LogicalPlan) command);
  }

  /** The scans of the tables for which {@code isChosen} is true. */
  public List<Scan> scans(Predicate<Table> isChosen) {
    return Catalyst.list(
        execution
            .optimizedPlan()
            .<Scan>collectWithSubqueries(
                Catalyst.replacing(
                    node ->
                        node instanceof DataSourceV2ScanRelation scan && isChosen.test(scan.relation().table())
                            ? scan.scan()
                            : null)));
  }

  public Table target() {
    return Relations.changed(((DataSourceV2Relation) command.table()).table());
  }

  /**
   * Runs it again.
   *
   * @param newest replaces the target
   * @param operation makes an operation on {@code newest} of one on the target
   * @param isReplaced whether a table is the target, and {@code newest} is read instead
   */
  public void runAgain(
      SupportsRowLevelOperations newest,
      UnaryOperator<RowLevelOperation> operation,
      Predicate<Table> isReplaced) {
    DataSourceV2Relation target = (DataSourceV2Relation) command.table();
    RowLevelOperationTable changed =
        target.table() instanceof RowLevelOperationTable old
            ? new RowLevelOperationTable(newest, operation.apply(old.operation()))
            : null;
    LogicalPlan query =
        (LogicalPlan)
            command
                .query()
                .transformWithSubqueries(
                    Catalyst.<LogicalPlan, LogicalPlan>replacing(
                        node ->
                            node instanceof DataSourceV2Relation relation && isReplaced.test(relation.table())
                                ? Relations.with(
                                    relation, relation.table() instanceof RowLevelOperationTable ? changed : newest)
                                : null));
    V2WriteCommand fresh = command.withNewTable(Relations.with(target, changed == null ? newest : changed));
    LogicalPlan plan = (LogicalPlan) fresh.withNewQuery(query);
    plan.setAnalyzed();
    Dataset.ofRows(execution.sparkSession(), plan);
  }
}
