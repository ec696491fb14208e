package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;

/** The interface of changelogs that this Spark has. */
public interface SparkChangelog extends Changelog {
  /**
   * The changes that a query reads. The ends of the range are versions or microseconds since 1970; null if there is none.
   *
   * @param deduplication the name of Spark's mode
   * @param computesUpdates whether pairs of a deleted and an added row are updates
   */
  record Range(
      String firstVersion,
      String lastVersion,
      Long firstMicros,
      Long lastMicros,
      boolean includesFirst,
      boolean includesLast,
      String deduplication,
      boolean computesUpdates) {
    static Range of(ChangelogContext context) {
      ChangelogRange range = context.range();
      ChangelogRange.VersionRange versions = range instanceof ChangelogRange.VersionRange chosen ? chosen : null;
      ChangelogRange.TimestampRange moments = range instanceof ChangelogRange.TimestampRange chosen ? chosen : null;
      return new Range(
          versions == null ? null : versions.startingVersion(),
          versions == null ? null : versions.endingVersion().orElse(null),
          moments == null ? null : moments.startingTimestamp(),
          moments == null ? null : moments.endingTimestamp().orElse(null),
          range.startingBoundInclusive(),
          range.endingBoundInclusive(),
          context.deduplicationMode().name(),
          context.computeUpdates());
    }
  }
}
