package io.lancespark.compat;

import java.math.BigDecimal;
import java.util.List;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver$;
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.InsertOnlyMerge;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric$;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.types.variant.Variant;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Single calls that differ between minor versions of Spark. */
public final class Shims {
  private Shims() {}

  /** Whether a write is a MERGE that only inserts. Spark 4.0 and 4.1 make an append of it. */
  public static boolean isInsertOnlyMerge(LogicalPlan write) {
    return write instanceof InsertOnlyMerge;
  }

  /** The instruction of a MERGE with other values. */
  public static MergeRows.Instruction with(MergeRows.Keep keep, Seq<Expression> output) {
    return keep.copy(keep.context(), keep.condition(), output);
  }

  /** The query with the columns {@code expected}, matched by name, cast, and filled with defaults. */
  static LogicalPlan resolvedOutput(String table, Seq<Attribute> expected, LogicalPlan query) {
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

  /** The statistics of the only column of a schema. */
  static ColumnStatistics columnStatistics(CatalogStatistics ofColumn, StructType schema) {
    return DataSourceV2Relation.v1StatsToV2Stats(ofColumn, schema).columnStats().values().iterator().next();
  }

  /** A decimal number of a variant with all digits of its scale. */
  public static BigDecimal decimal(Variant value) {
    return value.getDecimalWithOriginalScale();
  }

  static ArrowPythonRunner arrowRunner(
      SimplePythonFunction function,
      int evalType,
      StructType input,
      String timeZone,
      boolean largeTypes,
      Map<String, String> conf,
      String artifacts) {
    return new ArrowPythonRunner(
        PythonUtils.toSeq(
            List.of(new Tuple2<>(new ChainedPythonFunctions(PythonUtils.toSeq(List.of(function))), (Object) 0L))),
        evalType,
        new int[][] {{0}},
        input,
        timeZone,
        largeTypes,
        conf,
        PythonCustomMetric$.MODULE$.pythonMetrics(),
        Option.apply(artifacts),
        Option.empty());
  }
}
