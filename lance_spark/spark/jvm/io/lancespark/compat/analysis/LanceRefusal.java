package io.lancespark.compat.analysis;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;

/** Fails each statement by a check that throws. */
public final class LanceRefusal extends Rule<LogicalPlan> {
  private final Runnable check;

  public LanceRefusal(Runnable check) {
    this.check = check;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    check.run();
    return plan;
  }
}
