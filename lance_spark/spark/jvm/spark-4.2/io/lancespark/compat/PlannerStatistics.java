package io.lancespark.compat;

import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt;

/** Statistics of columns for Spark's optimizer. */
final class PlannerStatistics {
  private PlannerStatistics() {}

  /** The statistics of a column of this type and name. */
  static ColumnStatistics of(CatalogColumnStat stat, String name, DataType type) {
    scala.collection.immutable.Map<String, CatalogColumnStat> columns =
        scala.collection.immutable.Map.from(CollectionConverters.asScala(Map.of(name, stat)));
    CatalogStatistics ofColumn = new CatalogStatistics(BigInt.apply(0), Option.empty(), columns);
    StructType schema = new StructType().add(name, type);
    return DataSourceV2Relation.v1StatsToV2Stats(ofColumn, schema).columnStats().values().iterator().next();
  }
}
