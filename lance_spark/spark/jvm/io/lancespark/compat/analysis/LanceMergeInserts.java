package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import io.lancespark.table.RelationOptions;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Marks the target of a MERGE, because a MERGE that only inserts is loaded like the target of an INSERT, and Spark refuses
 * a MERGE into a table that it knows to have generated columns.
 */
public final class LanceMergeInserts extends Rule<LogicalPlan> {
  private final SparkSession session;

  public LanceMergeInserts(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!(plan instanceof MergeIntoTable merge)) {
      return plan;
    }
    return merge.withNewChildrenInternal(marked(merge.targetTable()), merge.sourceTable());
  }

  private LogicalPlan marked(LogicalPlan target) {
    if (target instanceof SubqueryAlias alias) {
      return new SubqueryAlias(alias.identifier(), marked(alias.child()));
    }
    if (!(target instanceof UnresolvedRelation relation) || !isLance(relation)) {
      return target;
    }
    Map<String, String> options = new HashMap<>(relation.options().asCaseSensitiveMap());
    options.put(RelationOptions.MERGE, "true");
    return relation.copy(
        relation.multipartIdentifier(), new CaseInsensitiveStringMap(options), relation.isStreaming());
  }

  private boolean isLance(UnresolvedRelation relation) {
    List<String> parts = Catalyst.list(relation.multipartIdentifier());
    return LanceParser.resolve(session, parts) != null;
  }
}
