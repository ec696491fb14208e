package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;

/** The optimizer rules of the connector. Each that changes a scan has its own setting; none changes a result. */
public final class LanceRules {
  private static final List<Supplier<Rule<LogicalPlan>>> RULES =
      List.of(
          LanceArrayConditions.Left::new,
          LanceBinaryRanges::new,
          LanceVariantPaths::new,
          LanceDynamicPruning::new,
          LanceMergePruning::new,
          LanceTaskCoalescing::new);

  private LanceRules() {}

  /**
   * Adds the rules to every session that has these extensions.
   *
   * <p>The rules need plans with built and pruned scans, but extensions inject rules only before that step. The only
   * later list of rules belongs to the session. So a no-op rule is injected to get hold of the session when its
   * optimizer is created.
   */
  public static void inject(SparkSessionExtensions extensions) {
    extensions.injectPreCBORule(
        Catalyst.ruleOf(
            session -> {
              addTo(session);
              return new Unchanged();
            }));
  }

  /** Adds the rules to a running session; repeated calls have no effect. */
  public static void addTo(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    synchronized (methods) {
      List<Rule<LogicalPlan>> rules = new ArrayList<>(Catalyst.list(methods.extraOptimizations()));
      if (rules.stream().noneMatch(LanceTaskCoalescing.class::isInstance)) {
        RULES.forEach(rule -> rules.add(rule.get()));
        methods.extraOptimizations_$eq(Catalyst.seq(rules));
      }
    }
  }

  private static final class Unchanged extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return plan;
    }
  }
}
