package io.lancespark.streaming;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Epochs;
import io.lancespark.compat.RowConversion;
import io.lancespark.compat.UpdatesAsAppends;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.write.LanceStatement;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** The write of one epoch of a streaming query; Spark makes one for each epoch. */
public class LanceEpochWriteBuilder implements SupportsTruncate {
  static final String QUERY_ID = "sql.streaming.queryId";
  private static final String EPOCH = "streaming.sql.batchId";
  private static final String CONTINUOUS = "__is_continuous_processing";

  private final ObjectNode request = Json.object();
  private final String table;
  private final StructType rows;
  private final boolean hasCatalog;
  private final boolean byKey;
  private final String query;

  /**
   * @param handle the table when the query started
   * @param table its name in messages
   * @param hasCatalog whether Spark can find functions of the table's catalog
   */
  private LanceEpochWriteBuilder(JsonNode handle, String table, LogicalWriteInfo info, boolean hasCatalog) {
    this.query = info.queryId();
    this.byKey = info.options().containsKey("key");
    this.table = table;
    this.rows = info.schema();
    this.hasCatalog = hasCatalog;
    request.set("handle", handle);
    request.set("options", Json.map(info.options().asCaseSensitiveMap()));
    request.put("mode", !byKey && Epochs.updates(query) ? "update" : "append");
    request.put("query_id", info.queryId());
    long epoch = Long.parseLong(property(EPOCH));
    request.put("epoch", epoch);
    request.put("planned", Epochs.planned(info.queryId(), epoch));
  }

  /** See the constructor. */
  public static WriteBuilder of(JsonNode handle, String table, LogicalWriteInfo info, boolean hasCatalog) {
    return info.options().containsKey("key") || Epochs.updates(info.queryId())
        ? new Updates(handle, table, info, hasCatalog)
        : new LanceEpochWriteBuilder(handle, table, info, hasCatalog);
  }

  /**
   * Spark allows the output mode update for such builders, and hands over updated rows like new ones. Without a key
   * Python refuses them.
   */
  private static final class Updates extends LanceEpochWriteBuilder implements UpdatesAsAppends {
    Updates(JsonNode handle, String table, LogicalWriteInfo info, boolean hasCatalog) {
      super(handle, table, info, hasCatalog);
    }
  }

  /** Whether a write is that of an epoch. Batch writes in a foreachBatch have an id of their own. */
  public static boolean isEpoch(LogicalWriteInfo info) {
    return info.queryId().equals(property(QUERY_ID)) && "false".equals(property(CONTINUOUS)) && property(EPOCH) != null;
  }

  /** What the last epoch of the thread's query has written, by name. */
  public static Map<String, String> metrics() {
    return LanceSinkMetrics.of(property(QUERY_ID));
  }

  private static String property(String name) {
    return SparkContext.getOrCreate().getLocalProperty(name);
  }

  @Override
  public WriteBuilder truncate() {
    request.put("mode", "complete");
    return this;
  }

  @Override
  public Write build() {
    request.set("columns", Json.type(rows));
    JsonNode opened = PythonChannel.call("stream.open_sink", request).body();
    if (opened.get("is_done").asBoolean()) {
      return new LanceDoneEpoch(table, query);
    }
    StructType columns = Json.schema(opened.get("schema"));
    RowConversion conversion =
        RowConversion.of(table, rows, columns, opened.get("merges_schema").asBoolean());
    request.set("handle", opened.get("handle"));
    request.set("columns", Json.type(conversion.columns()));
    request.set("sources", LanceStatement.sources());
    PythonChannel.Reply plan = PythonChannel.call("stream.plan_sink", request);
    return new LanceEpochWrite(
        request.get("handle"),
        plan,
        conversion,
        byKey || (hasCatalog && conversion.keepsColumns()),
        byKey,
        query);
  }
}
