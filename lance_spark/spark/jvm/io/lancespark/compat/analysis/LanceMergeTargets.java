package io.lancespark.compat.analysis;

import io.lancespark.compat.Capabilities;
import io.lancespark.compat.Catalyst;
import io.lancespark.python.LanceException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Loads the target of each MERGE with the privilege to update, because one that only inserts is loaded like the target
 * of an INSERT, and Spark refuses a MERGE into a table that it knows to have generated columns.
 */
public final class LanceMergeTargets extends Rule<LogicalPlan> {
  private static final String UPDATE = TableWritePrivilege.UPDATE.name();
  private static final String EVOLUTION = "AUTOMATIC_SCHEMA_EVOLUTION";

  private final SparkSession session;

  public LanceMergeTargets(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(
        Catalyst.replacing(node -> node instanceof MergeIntoTable merge ? loaded(merge) : null));
  }

  /** Returns null if the statement stays. */
  private LogicalPlan loaded(MergeIntoTable merge) {
    LogicalPlan target = loaded(merge.targetTable());
    if (target == null) {
      return null;
    }
    if (merge.withSchemaEvolution()
        && Capabilities.named(TableCapability.class, List.of(EVOLUTION)).isEmpty()) {
      throw LanceException.invalid(
          "this version of Spark leaves new columns out of MERGE WITH SCHEMA EVOLUTION; add them by ALTER TABLE ... ADD"
              + " COLUMNS, then run the MERGE without WITH SCHEMA EVOLUTION");
    }
    return target == merge.targetTable() ? null : merge.withNewChildrenInternal(target, merge.sourceTable());
  }

  private LogicalPlan loaded(LogicalPlan target) {
    if (target instanceof SubqueryAlias alias) {
      LogicalPlan child = loaded(alias.child());
      return child == null ? null : child == alias.child() ? alias : new SubqueryAlias(alias.identifier(), child);
    }
    if (!(target instanceof UnresolvedRelation relation) || !isLance(relation)) {
      return null;
    }
    Map<String, String> options = new HashMap<>(relation.options().asCaseSensitiveMap());
    String privileges = options.getOrDefault(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES(), "");
    if (List.of(privileges.split(",")).contains(UPDATE)) {
      return target;
    }
    options.put(
        UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES(), privileges.isEmpty() ? UPDATE : privileges + "," + UPDATE);
    return relation.copy(
        relation.multipartIdentifier(), new CaseInsensitiveStringMap(options), relation.isStreaming());
  }

  private boolean isLance(UnresolvedRelation relation) {
    List<String> parts = Catalyst.list(relation.multipartIdentifier());
    return LanceParser.resolve(session, parts) != null;
  }
}
