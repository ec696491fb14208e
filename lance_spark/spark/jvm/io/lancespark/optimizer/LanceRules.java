package io.lancespark.optimizer;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** The optimizer rules of the connector. Each has a setting of its own; none changes the rows of a query. */
public final class LanceRules {
  private static final List<Supplier<Rule<LogicalPlan>>> RULES = List.of(LanceDynamicPruning::new, LanceTaskCoalescing::new);

  private LanceRules() {}

  /**
   * Gives the rules to each session with these extensions.
   *
   * <p>The rules need plans whose scans are built and pruned. Extensions inject rules only before that. The one list of
   * rules that runs later belongs to the session, so an injected rule that does nothing serves to reach the session when
   * its optimizer is made.
   */
  public static void inject(SparkSessionExtensions extensions) {
    extensions.injectPreCBORule(
        new AbstractFunction1<org.apache.spark.sql.SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(org.apache.spark.sql.SparkSession session) {
            addTo((SparkSession) session);
            return new Unchanged();
          }
        });
  }

  /** Gives the rules to a session that runs, once. */
  public static void addTo(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    synchronized (methods) {
      List<Rule<LogicalPlan>> rules = new ArrayList<>(CollectionConverters.asJava(methods.extraOptimizations()));
      if (rules.stream().noneMatch(LanceTaskCoalescing.class::isInstance)) {
        RULES.forEach(rule -> rules.add(rule.get()));
        methods.extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
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
