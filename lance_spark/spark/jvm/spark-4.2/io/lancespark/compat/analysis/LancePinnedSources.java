package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import io.lancespark.table.TableVersion;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;

/**
 * Takes the catalog off tables that a clause of time travel has pinned to a version. In a transaction Spark loads each
 * relation of a catalog again, without its version: {@code mergeInto} would read the newest rows of a pinned source.
 */
public final class LancePinnedSources extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(
        Catalyst.replacing(
            node ->
                node instanceof DataSourceV2Relation relation && isPinned(relation) ? withoutCatalog(relation) : null));
  }

  private static boolean isPinned(DataSourceV2Relation relation) {
    return relation.timeTravelSpec().isDefined()
        && relation.catalog().isDefined()
        && relation.table() instanceof TableVersion version
        && version.isPinned();
  }

  private static LogicalPlan withoutCatalog(DataSourceV2Relation relation) {
    return relation.copy(
        relation.table(),
        relation.output(),
        Option.empty(),
        Option.empty(),
        relation.options(),
        relation.timeTravelSpec());
  }
}
