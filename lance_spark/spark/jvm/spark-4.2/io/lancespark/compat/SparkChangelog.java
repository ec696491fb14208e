package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;

/** The interface of changelogs that this Spark has. */
public interface SparkChangelog extends Changelog {
  /** The changes that a query reads. */
  static ChangesRange range(ChangelogContext context) {
    ChangelogRange range = context.range();
    ChangelogRange.VersionRange versions = range instanceof ChangelogRange.VersionRange chosen ? chosen : null;
    ChangelogRange.TimestampRange moments = range instanceof ChangelogRange.TimestampRange chosen ? chosen : null;
    return new ChangesRange(
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
