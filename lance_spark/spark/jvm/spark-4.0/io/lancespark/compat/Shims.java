package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Single calls that differ between minor versions of Spark. */
public final class Shims {
  private Shims() {}

  /** Whether a write is a MERGE that only inserts: before 4.2 Spark makes an append of it that reads the target itself. */
  public static boolean isInsertOnlyMerge(LogicalPlan write) {
    return write instanceof AppendData append
        && append.table() instanceof DataSourceV2Relation target
        && append.query().exists(node -> isSame(node, target));
  }

  /** Whether a node is this very relation; another one of the same table has other columns. */
  private static boolean isSame(LogicalPlan node, DataSourceV2Relation target) {
    return node instanceof DataSourceV2Relation relation && relation.output().equals(target.output());
  }

  /** The query with the columns {@code expected}, matched by name, cast, and filled with defaults. */
  public static LogicalPlan resolvedOutput(String table, Seq<Attribute> expected, LogicalPlan query) {
    return TableOutputResolver$.MODULE$.resolveOutputColumns(
        table, expected, query, true, SQLConf.get(), true);
  }

  public static StreamingRelationV2 with(StreamingRelationV2 stream, List<AttributeReference> columns) {
    return stream.copy(
        stream.source(),
        stream.sourceName(),
        stream.table(),
        stream.extraOptions(),
        Catalyst.seq(columns),
        stream.catalog(),
        stream.identifier(),
        stream.v1Relation());
  }

  /** The schema as SHOW CREATE TABLE prints it. */
  static StructType shown(StructType schema) {
    return schema;
  }

  /** The columns of a schema, with their defaults and comments. */
  static Column[] columns(StructType schema) {
    return CatalogV2Util.structTypeToV2Columns(schema);
  }
}
