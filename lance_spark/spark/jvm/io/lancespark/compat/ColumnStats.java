package io.lancespark.compat;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.ColumnStat;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.execution.command.CommandUtils$;
import org.apache.spark.sql.types.StructField;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Statistics of columns, computed by Spark and kept in the form of the tables of its own catalog.
 *
 * @param rows how many rows were analyzed
 * @param columns entries by key, by column
 */
public record ColumnStats(long rows, Map<String, Map<String, String>> columns) {
  /** Spark writes the name of the column before each key. */
  private static final String COLUMN = "c";

  static ColumnStats compute(Dataset<Row> rows) {
    LogicalPlan plan = rows.queryExecution().analyzed();
    Tuple2<Object, scala.collection.immutable.Map<Attribute, ColumnStat>> computed =
        CommandUtils$.MODULE$.computeColumnStats(rows.sparkSession(), plan, plan.output());
    Map<String, Map<String, String>> columns = new LinkedHashMap<>();
    CollectionConverters.asJava(computed._2())
        .forEach(
            (column, stat) -> {
              Map<String, String> entries = new LinkedHashMap<>();
              CollectionConverters.asJava(stat.toCatalogColumnStat(COLUMN, column.dataType()).toMap(COLUMN))
                  .forEach((key, value) -> entries.put(key.substring(COLUMN.length() + 1), value));
              columns.put(column.name(), entries);
            });
    return new ColumnStats((Long) computed._1(), columns);
  }

  /** The statistics of a column for Spark's optimizer; null if Spark cannot read the entries, and has logged why. */
  public static ColumnStatistics of(StructField column, Map<String, String> stats) {
    Map<String, String> entries = new HashMap<>();
    stats.forEach((key, value) -> entries.put(COLUMN + "." + key, value));
    Option<CatalogColumnStat> stat = CatalogColumnStat.fromMap(COLUMN, COLUMN, immutable(entries));
    if (stat.isEmpty()) {
      return null;
    }
    return PlannerStatistics.of(stat.get(), COLUMN, column.dataType());
  }

  private static <V> scala.collection.immutable.Map<String, V> immutable(Map<String, V> map) {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(map));
  }
}
