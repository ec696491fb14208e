package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.SessionConf;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** Collects what one write is to do with the rows that are there. */
public final class LanceWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private static final String APPEND = "append";

  private final ObjectNode request = Json.object();
  private final StructType tableColumns;
  private final Consumer<List<byte[]>> staged;
  private StructType columns;

  /** A write into a table with the columns {@code tableColumns}. */
  public LanceWriteBuilder(JsonNode handle, StructType tableColumns, LogicalWriteInfo info) {
    this(handle, tableColumns, info, null);
  }

  /** A write whose commit comes later; {@code staged} takes the job and the task results for it. */
  public LanceWriteBuilder(JsonNode handle, LogicalWriteInfo info, Consumer<List<byte[]>> staged) {
    this(handle, info.schema(), info, staged);
  }

  private LanceWriteBuilder(
      JsonNode handle, StructType tableColumns, LogicalWriteInfo info, Consumer<List<byte[]>> staged) {
    this.tableColumns = tableColumns;
    this.columns = info.schema();
    this.staged = staged;
    request.set("handle", handle);
    request.set("options", Json.map(info.options().asCaseSensitiveMap()));
    request.set("columns", Json.type(columns));
    request.put("session_overwrite_mode", SessionConf.overwriteMode());
    request.put("mode", APPEND);
    request.putArray("predicates");
  }

  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    ObjectNode question = request.deepCopy();
    question.set("predicates", Json.expressions(predicates));
    return PythonChannel.call("write.can_overwrite", question).body().get("taken").asBoolean();
  }

  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    request.put("mode", "overwrite");
    request.set("predicates", Json.expressions(predicates));
    return this;
  }

  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    request.put("mode", "overwrite_dynamic");
    return this;
  }

  @Override
  public Write build() {
    if (request.get("mode").asText().equals(APPEND)) {
      // With mergeSchema Spark leaves it to the table which columns are new.
      columns = LanceColumnNames.asIn(tableColumns, columns);
      request.set("columns", Json.type(columns));
    }
    request.set("sources", LanceStatement.sources());
    return new LanceWrite(request.get("handle"), PythonChannel.call("write.plan", request), columns, staged);
  }
}
