package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What is known of a version of a table, as rows that Python tells. */
final class LanceMetadataTable implements SupportsRead {
  private final JsonNode description;

  LanceMetadataTable(JsonNode description) {
    this.description = description;
  }

  @Override
  public String name() {
    return description.get("name").asText();
  }

  @Override
  public Column[] columns() {
    return columns(Json.schema(description.get("schema")));
  }

  static Column[] columns(StructType schema) {
    Column[] columns = new Column[schema.size()];
    for (int index = 0; index < columns.length; index++) {
      StructField field = schema.fields()[index];
      String comment = field.getComment().isDefined() ? field.getComment().get() : null;
      columns[index] = Column.create(field.name(), field.dataType(), field.nullable(), comment, (String) null);
    }
    return columns;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ObjectNode request = Json.object();
    request.set("handle", description.get("handle"));
    request.set("kind", description.get("kind"));
    return () -> new LanceLocalRows(name(), LancePy.call("metadata.rows", request).body());
  }
}
