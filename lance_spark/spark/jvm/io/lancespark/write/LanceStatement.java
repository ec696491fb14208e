package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import io.lancespark.compat.Statement;
import io.lancespark.python.Json;
import io.lancespark.read.LanceAggregateScan;
import io.lancespark.read.LanceScan;
import io.lancespark.table.TableVersion;
import io.lancespark.table.WritableVersion;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;

/** The statement that runs in this thread and writes: the tables it reads, and its runs on newer versions. */
public final class LanceStatement {
  private final Statement statement;

  private LanceStatement(Statement statement) {
    this.statement = statement;
  }

  /** The handles of the Lance tables that the statement of this thread reads. */
  public static ArrayNode sources() {
    Set<JsonNode> handles = new LinkedHashSet<>();
    for (Table table : Statement.tables()) {
      if (table instanceof WritableVersion version) {
        handles.add(version.handle());
      }
    }
    return Json.array().addAll(handles);
  }

  /** The statement of this thread; null if there is none that can be run again. */
  static LanceStatement running() {
    Statement statement = Statement.running();
    return statement == null ? null : new LanceStatement(statement);
  }

  /** Whether it is a MERGE that only inserts, which is written as an append is. */
  boolean isInsertingMerge() {
    return statement.isInsertingMerge();
  }

  /** The requests of all scans of Lance tables that choose no version themselves. */
  ArrayNode reads() {
    Set<JsonNode> requests = new LinkedHashSet<>();
    for (Scan scan : statement.scans(table -> !isPinned(table))) {
      if (scan instanceof LanceScan rows) {
        requests.add(rows.request());
      } else if (scan instanceof LanceAggregateScan aggregate) {
        requests.add(aggregate.request());
      }
    }
    return Json.array().addAll(requests);
  }

  /** Runs it again on the newest version of its target. */
  void runAgain() {
    WritableVersion old = (WritableVersion) statement.target();
    WritableVersion newest = old.newest();
    statement.runAgain(
        newest,
        operation -> ((WritableVersion.Operation) operation).on(newest),
        table -> !isPinned(table) && isTarget(table, old));
  }

  private static boolean isPinned(Table table) {
    return table instanceof TableVersion version && version.isPinned();
  }

  private static boolean isTarget(Table table, WritableVersion target) {
    return table instanceof RowLevelOperationTable
        || (table instanceof WritableVersion version && version.isVersionOf(target));
  }
}
