package io.lancespark.compat;

import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.plans.logical.ColumnStat;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.colstats.Histogram;
import org.apache.spark.sql.connector.read.colstats.HistogramBin;
import org.apache.spark.sql.types.DataType;
import scala.Option;
import scala.math.BigInt;

/** Statistics of columns for Spark's optimizer. */
final class PlannerStatistics {
  private PlannerStatistics() {}

  /** The statistics of a column of this type and name. */
  static ColumnStatistics of(CatalogColumnStat stat, String name, DataType type) {
    return new OfColumn(stat.toPlanStat(name, type));
  }

  private record OfColumn(ColumnStat stat) implements ColumnStatistics {
    @Override
    public OptionalLong distinctCount() {
      return count(stat.distinctCount());
    }

    @Override
    public OptionalLong nullCount() {
      return count(stat.nullCount());
    }

    @Override
    public Optional<Object> min() {
      return Optional.ofNullable(stat.min().getOrElse(() -> null));
    }

    @Override
    public Optional<Object> max() {
      return Optional.ofNullable(stat.max().getOrElse(() -> null));
    }

    @Override
    public OptionalLong avgLen() {
      return length(stat.avgLen());
    }

    @Override
    public OptionalLong maxLen() {
      return length(stat.maxLen());
    }

    @Override
    public Optional<Histogram> histogram() {
      return stat.histogram().isEmpty() ? Optional.empty() : Optional.of(OfBins.of(stat.histogram().get()));
    }

    private static OptionalLong count(Option<BigInt> count) {
      return count.isEmpty() ? OptionalLong.empty() : OptionalLong.of(count.get().longValue());
    }

    private static OptionalLong length(Option<Object> length) {
      return length.isEmpty() ? OptionalLong.empty() : OptionalLong.of((Long) length.get());
    }
  }

  private record OfBins(double height, HistogramBin[] bins) implements Histogram {
    static OfBins of(org.apache.spark.sql.catalyst.plans.logical.Histogram histogram) {
      HistogramBin[] bins = new HistogramBin[histogram.bins().length];
      for (int index = 0; index < bins.length; index++) {
        org.apache.spark.sql.catalyst.plans.logical.HistogramBin bin = histogram.bins()[index];
        bins[index] = new OfBin(bin.lo(), bin.hi(), bin.ndv());
      }
      return new OfBins(histogram.height(), bins);
    }
  }

  private record OfBin(double lo, double hi, long ndv) implements HistogramBin {}
}
