package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.LancePy;
import io.lancespark.read.LanceInputPartition;
import io.lancespark.read.LanceReaderFactory;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;
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
    return new Builder(request, Json.schema(description.get("schema")));
  }

  private static final class Builder implements SupportsPushDownRequiredColumns {
    private final ObjectNode request;
    private StructType columns;

    Builder(ObjectNode request, StructType columns) {
      this.request = request;
      this.columns = columns;
    }

    @Override
    public void pruneColumns(StructType required) {
      // Top-level columns only: nested fields are not pruned.
      StructType whole = new StructType();
      for (String name : required.fieldNames()) {
        whole = whole.add(columns.apply(name));
      }
      columns = whole;
    }

    @Override
    public Scan build() {
      return new Changes(request, columns);
    }
  }

  private static final class Changes implements Batch, SupportsReportStatistics {
    private final ObjectNode request;
    private final StructType columns;
    private LancePy.Reply plan;

    Changes(ObjectNode request, StructType columns) {
      this.request = request;
      this.columns = columns;
      request.set("columns", Json.type(columns));
    }

    private synchronized LancePy.Reply plan() {
      if (plan == null) {
        plan = LancePy.call("changelog.plan", request);
      }
      return plan;
    }

    @Override
    public StructType readSchema() {
      return columns;
    }

    @Override
    public String description() {
      return plan().body().get("description").asText();
    }

    @Override
    public Batch toBatch() {
      return this;
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
      return ColumnarSupportMode.SUPPORTED;
    }

    @Override
    public InputPartition[] planInputPartitions() {
      List<byte[]> attachments = plan().attachments();
      return attachments.subList(1, attachments.size()).stream()
          .map(work -> new LanceInputPartition(List.of(work), false))
          .toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new LanceReaderFactory(plan().attachments().get(0), readSchema(), false, description());
    }

    @Override
    public Statistics estimateStatistics() {
      JsonNode rows = plan().body().get("num_rows");
      JsonNode bytes = plan().body().get("size_bytes");
      return new Statistics() {
        @Override
        public OptionalLong numRows() {
          return rows.isNull() ? OptionalLong.empty() : OptionalLong.of(rows.asLong());
        }

        @Override
        public OptionalLong sizeInBytes() {
          return bytes.isNull() ? OptionalLong.empty() : OptionalLong.of(bytes.asLong());
        }
      };
    }
  }
}
