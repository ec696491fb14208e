package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Types;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.read.LanceLocalRows;
import io.lancespark.table.TableVersion;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A metadata table of a table version; Python returns its rows. */
public final class LanceMetadataTable implements SupportsRead, TableVersion {
  private final JsonNode description;

  LanceMetadataTable(JsonNode description) {
    this.description = description;
  }

  @Override
  public JsonNode handle() {
    return description.get("handle");
  }

  @Override
  public boolean isPinned() {
    return description.get("pinned").asBoolean();
  }

  @Override
  public String name() {
    return description.get("name").asText();
  }

  @Override
  public Column[] columns() {
    return Types.columns(Json.schema(description.get("schema")));
  }

  /** Abstract in Spark 4.0; later versions ask for the columns. */
  @Override
  public StructType schema() {
    return Json.schema(description.get("schema"));
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ObjectNode request = Json.object();
    request.set("handle", handle());
    request.set("kind", description.get("kind"));
    boolean newestFirst = description.path("newest_first").asBoolean();
    return newestFirst ? new Newest(name(), request) : new Rows(name(), request);
  }

  /** A scan of all rows. */
  private static class Rows implements ScanBuilder {
    final ObjectNode request;
    private final String name;

    Rows(String name, ObjectNode request) {
      this.name = name;
      this.request = request;
    }

    @Override
    public Scan build() {
      return new LanceLocalRows(name, PythonChannel.call("metadata.rows", request).body());
    }
  }

  /** A scan of versions, newest first, that accepts LIMIT and top-N by version. */
  private static final class Newest extends Rows
      implements SupportsPushDownLimit, SupportsPushDownTopN {
    Newest(String name, ObjectNode request) {
      super(name, request);
    }

    @Override
    public boolean pushLimit(int limit) {
      request.put("limit", limit);
      return true;
    }

    @Override
    public boolean pushTopN(SortOrder[] orders, int limit) {
      boolean isOrder =
          orders.length == 1
              && orders[0].direction() == SortDirection.DESCENDING
              && orders[0].expression() instanceof NamedReference column
              && List.of(column.fieldNames()).equals(List.of("version"));
      return isOrder && pushLimit(limit);
    }

    @Override
    public boolean isPartiallyPushed() {
      return true;
    }
  }
}
