package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import org.apache.spark.sql.SparkSessionExtensions;

/** The analyzer's rules that only some versions of Spark need, or have the nodes for. */
public final class MinorRules {
  private MinorRules() {}

  public static void inject(SparkSessionExtensions extensions) {
    LanceTableOptions.inject(extensions);
    extensions.injectPostHocResolutionRule(Catalyst.rule(LancePinnedSources::new));
    extensions.injectPostHocResolutionRule(Catalyst.rule(LanceNearestJoins::new));
  }
}
