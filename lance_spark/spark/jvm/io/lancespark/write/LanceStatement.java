package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import io.lancespark.catalog.LanceCachedPlans;
import io.lancespark.catalog.LanceTable;
import io.lancespark.optimizer.Cases;
import io.lancespark.python.Json;
import io.lancespark.read.LanceAggregateScan;
import io.lancespark.read.LanceScan;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.InsertOnlyMerge;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The statement that runs in this thread and writes: what it reads, and how it is run again on newer versions.
 *
 * <p>It is found by the execution that Spark has registered, whose plan is analysed and not optimized yet: SQL,
 * DataFrames and Connect all end there. That plan is run again with the newest versions of the target in place of those it was
 * analysed with. The columns of all relations stay, so nothing has to be resolved again.
 */
public final class LanceStatement {
  private final QueryExecution execution;
  private final V2WriteCommand command;

  private LanceStatement(QueryExecution execution, V2WriteCommand command) {
    this.execution = execution;
    this.command = command;
  }

  /** The handles of the Lance tables that the statement of this thread reads. */
  public static ArrayNode sources() {
    Set<JsonNode> found = new LinkedHashSet<>();
    QueryExecution execution = execution();
    if (execution != null) {
      CollectionConverters.asJava(
              execution.logical().collectWithSubqueries(new Cases<JsonNode>() {
                @Override
                protected JsonNode of(LogicalPlan node) {
                  return handle(node);
                }
              }))
          .forEach(found::add);
    }
    return Json.array().addAll(found);
  }

  private static JsonNode handle(LogicalPlan node) {
    Table table = node instanceof DataSourceV2Relation relation ? relation.table()
        : node instanceof StreamingDataSourceV2ScanRelation stream ? stream.relation().table()
        : null;
    Table known = table instanceof RowLevelOperationTable operation ? operation.table() : table;
    return known instanceof LanceTable lance ? lance.handle() : null;
  }

  private static QueryExecution execution() {
    String id = SparkContext.getOrCreate().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    return id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
  }

  /** The statement of this thread; null if there is none that can be run again. */
  static LanceStatement running() {
    QueryExecution execution = execution();
    boolean writes = execution != null && execution.logical() instanceof V2WriteCommand;
    return writes ? new LanceStatement(execution, (V2WriteCommand) execution.logical()) : null;
  }

  /** Whether it is a MERGE that only inserts, which is written as an append is. */
  boolean isInsertingMerge() {
    return command instanceof InsertOnlyMerge;
  }

  /** The requests of all scans of Lance tables that choose no version themselves. */
  ArrayNode reads() {
    Set<JsonNode> found = new LinkedHashSet<>();
    CollectionConverters.asJava(
            execution.optimizedPlan().collectWithSubqueries(new Cases<JsonNode>() {
              @Override
              protected JsonNode of(LogicalPlan node) {
                return node instanceof DataSourceV2ScanRelation scan && !LanceCachedPlans.isPinned(scan.relation())
                    ? request(scan.scan())
                    : null;
              }
            }))
        .forEach(found::add);
    return Json.array().addAll(found);
  }

  private static JsonNode request(Scan scan) {
    if (scan instanceof LanceScan rows) {
      return rows.request();
    }
    return scan instanceof LanceAggregateScan aggregate ? aggregate.request() : null;
  }

  /** Runs it again on the newest version of its target. */
  void runAgain() {
    LogicalPlan fresh = onNewest();
    fresh.setAnalyzed();
    Dataset.ofRows(execution.sparkSession(), fresh);
  }

  private LogicalPlan onNewest() {
    DataSourceV2Relation target = (DataSourceV2Relation) command.table();
    LanceTable old = target.table() instanceof RowLevelOperationTable operation
        ? (LanceTable) operation.table()
        : (LanceTable) target.table();
    LanceTable newest = old.newest();
    RowLevelOperationTable changed = target.table() instanceof RowLevelOperationTable operation
        ? new RowLevelOperationTable(newest, ((LanceRowLevelOperation) operation.operation()).on(newest))
        : null;
    Cases<LogicalPlan> relations = new Cases<>() {
      @Override
      protected LogicalPlan of(LogicalPlan node) {
        if (!(node instanceof DataSourceV2Relation relation) || LanceCachedPlans.isPinned(relation)) {
          return null;
        }
        if (relation.table() instanceof RowLevelOperationTable) {
          return with(relation, changed);
        }
        boolean isTarget = relation.table() instanceof LanceTable table && table.isVersionOf(old);
        return isTarget ? with(relation, newest) : null;
      }
    };
    LogicalPlan query = (LogicalPlan) command.query().transformWithSubqueries(relations);
    V2WriteCommand fresh = command.withNewTable(with(target, changed == null ? newest : changed));
    return (LogicalPlan) fresh.withNewQuery(query);
  }

  private static DataSourceV2Relation with(DataSourceV2Relation relation, Table table) {
    return relation.copy(
        table,
        relation.output(),
        relation.catalog(),
        relation.identifier(),
        relation.options(),
        relation.timeTravelSpec());
  }
}
