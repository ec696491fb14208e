package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver$;
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.InsertOnlyMerge;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Single calls that differ between minor versions of Spark. */
public final class Shims {
  private Shims() {}

  /** Whether a write is a MERGE that only inserts. */
  public static boolean isInsertOnlyMerge(LogicalPlan write) {
    return write instanceof InsertOnlyMerge;
  }

  /** The query with the columns {@code expected}, matched by name, cast, and filled with defaults. */
  public static LogicalPlan resolvedOutput(String table, Seq<Attribute> expected, LogicalPlan query) {
    return TableOutputResolver$.MODULE$.resolveOutputColumns(
        table, expected, query, true, SQLConf.get(), TableOutputResolver.DefaultValueFillMode$.MODULE$.FILL());
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
        stream.v1Relation(),
        stream.sourceIdentifyingName());
  }

  /** The schema as SHOW CREATE TABLE prints it: texts without a collation have UTF8_BINARY. */
  static StructType shown(StructType schema) {
    return (StructType) DataTypeUtils.replaceNonCollatedTypesWithExplicitUTF8Binary(schema);
  }

  /** The columns of a schema, with their defaults and comments. */
  static Column[] columns(StructType schema) {
    return CatalogV2Util.structTypeToV2Columns(schema, CatalogV2Util.structTypeToV2Columns$default$2());
  }
}
