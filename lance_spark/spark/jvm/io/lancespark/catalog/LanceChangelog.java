package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.ChangesRange;
import io.lancespark.compat.SparkChangelog;
import io.lancespark.compat.Types;
import io.lancespark.python.Json;
import io.lancespark.read.LancePlannedScan;
import io.lancespark.streaming.LanceMicroBatchStream;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The changes in a version range of a table; Python plans the tasks. */
public final class LanceChangelog implements SparkChangelog {
  private final JsonNode description;
  private final ObjectNode range;

  LanceChangelog(JsonNode description, ObjectNode range) {
    this.description = description;
    this.range = range;
  }

  /** The range as JSON for requests. */
  static ObjectNode describe(ChangesRange range) {
    ObjectNode node = Json.object();
    if (range.firstVersion() != null) {
      node.put("starting_version", range.firstVersion());
    }
    if (range.lastVersion() != null) {
      node.put("ending_version", range.lastVersion());
    }
    if (range.firstMicros() != null) {
      node.put("starting_micros", range.firstMicros());
    }
    if (range.lastMicros() != null) {
      node.put("ending_micros", range.lastMicros());
    }
    node.put("starting_inclusive", range.includesFirst());
    node.put("ending_inclusive", range.includesLast());
    return node;
  }

  @Override
  public String name() {
    return description.get("name").asText();
  }

  @Override
  public Column[] columns() {
    return Types.columns(Json.schema(description.get("schema")));
  }

  @Override
  public boolean containsCarryoverRows() {
    return false;
  }

  /** Python refuses changelogs for which Spark would have to compute net changes. */
  @Override
  public boolean containsIntermediateChanges() {
    return false;
  }

  /** Python refuses changelogs for which Spark would have to compute updates. */
  @Override
  public boolean representsUpdateAsDeleteAndInsert() {
    return false;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ObjectNode request = Json.object();
    request.set("handle", description.get("handle"));
    request.set("range", range);
    request.set("options", Json.map(options.asCaseSensitiveMap()));
    JsonNode handle = description.get("handle");
    return new LancePlannedScan.Builder(
        "changelog.plan",
        request,
        Json.schema(description.get("schema")),
        (columns, checkpoint) ->
            new LanceMicroBatchStream(handle, columns, request.get("options"), range, checkpoint));
  }
}
