package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Query;
import io.lancespark.compat.SessionConf;
import io.lancespark.compat.SourceTable;
import io.lancespark.python.Json;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** The steps of an import that need Spark: statements, and what Spark knows of the source. */
final class ImportSteps {
  private static final List<String> LOSSY = List.of("ignoreCorruptFiles", "ignoreMissingFiles");

  private ImportSteps() {}

  /** Runs statements in order; returns the rows of the last one as lists of texts. */
  static byte[] rowsOfLast(JsonNode statements) {
    ArrayNode rows = Json.array();
    for (JsonNode text : statements) {
      rows.removeAll();
      for (List<String> values : new Query(text.asText()).texts()) {
        ArrayNode row = rows.addArray();
        values.forEach(row::add);
      }
    }
    return rows.toString().getBytes(StandardCharsets.UTF_8);
  }

  /** The source with the name and the format of {@code source}. */
  static byte[] described(JsonNode source) {
    ObjectNode answer = Json.object();
    String format = source.get("format").asText();
    boolean hasFormat = format.isEmpty() || SourceTable.hasFormat(format);
    answer.put("has_format", hasFormat);
    if (hasFormat) {
      describe(new SourceTable(source.get("name").asText()), answer);
    }
    return answer.toString().getBytes(StandardCharsets.UTF_8);
  }

  private static void describe(SourceTable table, ObjectNode answer) {
    answer.set("columns", Json.type(table.columns()));
    answer.set("definitions", Json.strings(table.definitions().toArray(new String[0])));
    answer.set("partitioning", Json.strings(table.partitioning().toArray(new String[0])));
    answer.set("properties", Json.map(table.properties()));
    answer.set("options", Json.map(table.options()));
    answer.put("comment", table.comment());
    answer.put("buckets", table.buckets());
    answer.put("is_lance", table.isLance());
    ArrayNode lossy = answer.putArray("lossy");
    for (String name : LOSSY) {
      if (SessionConf.get("spark.sql.files." + name, "false").equalsIgnoreCase("true")) {
        lossy.add("spark.sql.files." + name);
      }
    }
    if (table.files() != null) {
      ArrayNode files = answer.putArray("files");
      for (SourceTable.File file : table.files()) {
        files.addArray().add(file.path()).add(file.size()).add(file.modified());
      }
    }
  }
}
