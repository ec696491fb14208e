package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.ColumnStats;
import io.lancespark.python.Json;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.colstats.Histogram;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Statistics of columns, computed by Spark and kept in the form of the tables of its own catalog. */
public final class LanceColumnStatistics {
  private LanceColumnStatistics() {}

  /** Statistics that Spark has computed, as a JSON object for Python. */
  public static byte[] described(ColumnStats computed) {
    ObjectNode described = Json.object();
    described.put("rows", computed.rows());
    ObjectNode columns = described.putObject("columns");
    computed.columns().forEach((column, entries) -> columns.set(column, Json.map(entries)));
    return described.toString().getBytes(StandardCharsets.UTF_8);
  }

  /**
   * The statistics for Spark's optimizer.
   *
   * @param described rows and entries by column, as Python keeps them
   * @param numRows how many rows a scan returns, of which there may be fewer than were analyzed
   */
  static Map<NamedReference, ColumnStatistics> of(JsonNode described, StructType columns, OptionalLong numRows) {
    Map<NamedReference, ColumnStatistics> statistics = new HashMap<>();
    for (StructField column : columns.fields()) {
      JsonNode entry = described.path(column.name());
      ColumnStatistics analyzed = entry.isMissingNode() ? null : ColumnStats.of(column, Json.map(entry.get("stats")));
      if (analyzed != null) {
        long rows = entry.get("rows").asLong();
        double share = numRows.isEmpty() || rows == 0 ? 1.0 : (double) numRows.getAsLong() / rows;
        statistics.put(reference(column.name()), new OfShare(analyzed, share));
      }
    }
    return statistics;
  }

  private static NamedReference reference(String column) {
    NamedReference described = Json.column(column);
    return described.describe().equals(column) ? described : new Named(column);
  }

  /** A column whose name has to be quoted: Spark's optimizer compares what describes it with the name without quotes. */
  private record Named(String describe) implements NamedReference {
    @Override
    public String[] fieldNames() {
      return new String[] {describe};
    }
  }

  /** Statistics of a part of the analyzed rows, or of more rows; counts in proportion, as Spark has it for filters. */
  private record OfShare(ColumnStatistics all, double share) implements ColumnStatistics {
    @Override
    public OptionalLong distinctCount() {
      return scaled(all.distinctCount(), Math.min(share, 1.0));
    }

    @Override
    public OptionalLong nullCount() {
      return scaled(all.nullCount(), share);
    }

    private static OptionalLong scaled(OptionalLong count, double share) {
      return count.isEmpty() ? count : OptionalLong.of((long) Math.ceil(count.getAsLong() * share));
    }

    @Override
    public Optional<Object> min() {
      return all.min();
    }

    @Override
    public Optional<Object> max() {
      return all.max();
    }

    @Override
    public OptionalLong avgLen() {
      return all.avgLen();
    }

    @Override
    public OptionalLong maxLen() {
      return all.maxLen();
    }

    @Override
    public Optional<Histogram> histogram() {
      return all.histogram();
    }
  }
}
