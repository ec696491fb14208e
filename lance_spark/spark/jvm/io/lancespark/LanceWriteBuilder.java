package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** Collects what one write is to do with the rows that are there. */
final class LanceWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final ObjectNode request = Json.object();
  private final StructType columns;
  private final LanceStagedTable staged;

  LanceWriteBuilder(JsonNode handle, LogicalWriteInfo info) {
    this(handle, info, null);
  }

  /** A write whose commit is left to {@code staged}, if that is not null. */
  LanceWriteBuilder(JsonNode handle, LogicalWriteInfo info, LanceStagedTable staged) {
    this.columns = info.schema();
    this.staged = staged;
    request.set("handle", handle);
    request.set("options", Json.map(info.options().asCaseSensitiveMap()));
    request.set("columns", Json.type(columns));
    request.put("mode", "append");
    request.putArray("predicates");
  }

  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    ObjectNode asked = request.deepCopy();
    asked.set("predicates", Json.expressions(predicates));
    return LancePy.call("write.can_overwrite", asked).body().get("taken").asBoolean();
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
    return new LanceWrite(LancePy.call("write.plan", request), columns, staged);
  }
}
