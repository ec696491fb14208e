package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.table.LanceCachedPlans;
import io.lancespark.write.LanceWriteBuilder;
import java.util.List;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** The staged table of CREATE TABLE AS SELECT or REPLACE TABLE: table and rows become visible in one commit. */
public final class LanceStagedTable extends LanceTable implements StagedTable {
  /** The job and the task results. */
  private List<byte[]> written = List.of();

  public LanceStagedTable(JsonNode description) {
    super(description);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new LanceWriteBuilder(handle(), info, results -> written = results);
  }

  @Override
  public void commitStagedChanges() {
    try {
      PythonChannel.call("table.commit_staged", request(), written);
    } finally {
      LanceCachedPlans.refresh(handle());
    }
  }

  @Override
  public void abortStagedChanges() {
    PythonChannel.call("table.abort_staged", request());
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  private ObjectNode request() {
    ObjectNode request = Json.object();
    request.set("handle", handle());
    return request;
  }
}
