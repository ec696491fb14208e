package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.read.LancePlannedScan;
import io.lancespark.streaming.LanceMicroBatchStream;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The changes in a version range of a table; Python plans the tasks. */
public final class LanceChangelog implements Changelog {
  private final JsonNode description;
  private final ObjectNode range;

  LanceChangelog(JsonNode description, ObjectNode range) {
    this.description = description;
    this.range = range;
  }

  /** The range as JSON for requests. */
  static ObjectNode describe(ChangelogRange range) {
    ObjectNode node = Json.object();
    if (range instanceof ChangelogRange.VersionRange versions) {
      node.put("starting_version", versions.startingVersion());
      versions.endingVersion().ifPresent(end -> node.put("ending_version", end));
    } else if (range instanceof ChangelogRange.TimestampRange moments) {
      node.put("starting_micros", moments.startingTimestamp());
      moments.endingTimestamp().ifPresent(end -> node.put("ending_micros", end));
    }
    node.put("starting_inclusive", range.startingBoundInclusive());
    node.put("ending_inclusive", range.endingBoundInclusive());
    return node;
  }

  @Override
  public String name() {
    return description.get("name").asText();
  }

  @Override
  public Column[] columns() {
    return LanceMetadataTable.columns(Json.schema(description.get("schema")));
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
