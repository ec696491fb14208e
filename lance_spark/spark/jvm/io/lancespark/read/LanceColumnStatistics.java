package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.ColumnStat;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.colstats.Histogram;
import org.apache.spark.sql.execution.command.CommandUtils$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt;

/** Statistics of columns, computed by Spark and kept in the form of the tables of its own catalog. */
public final class LanceColumnStatistics {
  /** Spark writes the name of the column before each key. */
  private static final String COLUMN = "c";

  private LanceColumnStatistics() {}

  /** Computes them for all columns of a query: a JSON object for Python. */
  public static byte[] compute(Dataset<Row> rows) {
    LogicalPlan plan = rows.queryExecution().analyzed();
    Tuple2<Object, scala.collection.immutable.Map<Attribute, ColumnStat>> computed =
        CommandUtils$.MODULE$.computeColumnStats(rows.sparkSession(), plan, plan.output());
    ObjectNode found = Json.object();
    found.put("rows", (Long) computed._1());
    ObjectNode columns = found.putObject("columns");
    CollectionConverters.asJava(computed._2())
        .forEach(
            (column, stat) -> {
              ObjectNode entries = columns.putObject(column.name());
              CollectionConverters.asJava(stat.toCatalogColumnStat(COLUMN, column.dataType()).toMap(COLUMN))
                  .forEach((key, value) -> entries.put(key.substring(COLUMN.length() + 1), value));
            });
    return found.toString().getBytes(StandardCharsets.UTF_8);
  }

  /**
   * The statistics for Spark's optimizer.
   *
   * @param known rows and entries by column, as Python keeps them
   * @param numRows how many rows a scan returns, of which there may be fewer than were analyzed
   */
  static Map<NamedReference, ColumnStatistics> of(JsonNode known, StructType columns, OptionalLong numRows) {
    Map<NamedReference, ColumnStatistics> found = new HashMap<>();
    for (StructField column : columns.fields()) {
      JsonNode entry = known.path(column.name());
      ColumnStatistics analyzed = entry.isMissingNode() ? null : analyzed(column, Json.map(entry.get("stats")));
      if (analyzed != null) {
        long rows = entry.get("rows").asLong();
        double share = numRows.isEmpty() || rows == 0 ? 1.0 : (double) numRows.getAsLong() / rows;
        found.put(reference(column.name()), new OfShare(analyzed, share));
      }
    }
    return found;
  }

  private static ColumnStatistics analyzed(StructField column, Map<String, String> stats) {
    Map<String, String> entries = new HashMap<>();
    stats.forEach((key, value) -> entries.put(COLUMN + "." + key, value));
    Option<CatalogColumnStat> stat = CatalogColumnStat.fromMap(COLUMN, COLUMN, immutable(entries));
    if (stat.isEmpty()) {
      return null; // Spark has logged why it cannot read them.
    }
    CatalogStatistics ofColumn =
        new CatalogStatistics(BigInt.apply(0), Option.empty(), immutable(Map.of(COLUMN, stat.get())));
    StructType schema = new StructType().add(COLUMN, column.dataType());
    return DataSourceV2Relation.v1StatsToV2Stats(ofColumn, schema).columnStats().values().iterator().next();
  }

  private static <V> scala.collection.immutable.Map<String, V> immutable(Map<String, V> map) {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(map));
  }

  private static NamedReference reference(String column) {
    NamedReference known = Json.column(column);
    return known.describe().equals(column) ? known : new Named(column);
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
