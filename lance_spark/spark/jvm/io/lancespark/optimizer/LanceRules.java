package io.lancespark.optimizer;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** The rules with which Spark's optimizer ends, once there is a Lance table. */
public final class LanceRules {
  private static final List<Supplier<Rule<LogicalPlan>>> RULES = List.of(LanceJoinFilters::new, LancePacking::new);

  private LanceRules() {}

  /** Gives the rules to the active session, once. */
  public static void addToSession() {
    ExperimentalMethods methods = SparkSession.active().experimental();
    synchronized (methods) {
      List<Rule<LogicalPlan>> rules = new ArrayList<>(CollectionConverters.asJava(methods.extraOptimizations()));
      if (rules.stream().noneMatch(LancePacking.class::isInstance)) {
        RULES.forEach(rule -> rules.add(rule.get()));
        methods.extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
      }
    }
  }
}
