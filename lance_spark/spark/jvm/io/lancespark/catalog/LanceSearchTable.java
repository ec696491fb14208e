package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Types;
import io.lancespark.python.Json;
import io.lancespark.read.LancePlannedScan;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The result of a search in a table, such as {@code vector_search}; Python does the search. */
public final class LanceSearchTable implements SupportsRead {
  private final JsonNode description;
  private final ObjectNode search;

  /** The result of {@code search}, with the columns and the tables that Python has described. */
  public LanceSearchTable(JsonNode description, ObjectNode search) {
    this.description = description;
    this.search = search;
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
    request.set("handle", description.get("handle"));
    request.set("search", search);
    request.set("queries", description.path("queries").isMissingNode() ? NullNode.instance : description.get("queries"));
    return new LancePlannedScan.Builder("search.plan", request, Json.schema(description.get("schema")));
  }
}
