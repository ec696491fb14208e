package io.lancespark.compat;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/** A query of the session of this thread, for a job over its rows. */
public final class Query {
  private final Dataset<Row> rows;

  public Query(String text) {
    this.rows = Sessions.active().sql(text);
  }

  public StructType schema() {
    return rows.schema();
  }

  /** The tables that it reads. */
  public List<Table> tables() {
    List<Table> tables = new ArrayList<>();
    for (LogicalPlan leaf : Catalyst.list(rows.queryExecution().analyzed().collectLeaves())) {
      Table table = Relations.table(leaf);
      if (table != null) {
        tables.add(table);
      }
    }
    return tables;
  }

  /** The rows as texts, null for null; runs a job. */
  public List<List<String>> texts() {
    List<List<String>> texts = new ArrayList<>();
    for (Row row : rows.collectAsList()) {
      List<String> values = new ArrayList<>();
      for (int index = 0; index < row.size(); index++) {
        values.add(row.isNullAt(index) ? null : row.get(index).toString());
      }
      texts.add(values);
    }
    return texts;
  }

  public JavaRDD<InternalRow> rdd() {
    return rows.queryExecution().toRdd().toJavaRDD();
  }

  /** Statistics of all its columns; runs a job. */
  public ColumnStats columnStats() {
    return ColumnStats.compute(rows);
  }
}
