package io.lancespark;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.analysis.LanceColumnUpdates;
import io.lancespark.compat.analysis.LanceDescribeFunction;
import io.lancespark.compat.analysis.LanceGeneratedColumns;
import io.lancespark.compat.analysis.LanceInsertTargets;
import io.lancespark.compat.analysis.LanceJsonLengths;
import io.lancespark.compat.analysis.LanceMergeTargets;
import io.lancespark.compat.analysis.LanceNearestColumns;
import io.lancespark.compat.analysis.LanceParser;
import io.lancespark.compat.analysis.LanceReadBlob;
import io.lancespark.compat.analysis.LanceSessionNames;
import io.lancespark.compat.analysis.LanceShowCreateTable;
import io.lancespark.compat.analysis.LanceShowTables;
import io.lancespark.compat.analysis.LanceStreamTexts;
import io.lancespark.compat.analysis.LanceTableFunctions;
import io.lancespark.compat.analysis.LanceTextSearches;
import io.lancespark.compat.analysis.MinorRules;
import io.lancespark.compat.optimizer.LanceArrayConditions;
import io.lancespark.compat.optimizer.LanceFoundRowsStrategy;
import io.lancespark.compat.optimizer.LanceFunctionTerms;
import io.lancespark.compat.optimizer.LanceRules;
import io.lancespark.functions.LanceFunctions;
import io.lancespark.functions.NamedFunction;
import io.lancespark.python.LancePlanner;
import io.lancespark.python.LanceSpark;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * The session extension: SQL statements that Spark's grammar lacks, functions, and rules of analyzer, optimizer and
 * planner.
 */
public final class LanceExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  private static final String OWNER = LanceExtensions.class.getName();

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    LanceSpark.check();
    giveToExecutors();
    LancePlanner.start();
    injectRules(extensions);
    injectFunctions(extensions);
    return BoxedUnit.UNIT;
  }

  /** In the order of their steps: parser, analyzer, optimizer, planner. */
  private static void injectRules(SparkSessionExtensions extensions) {
    extensions.injectParser(LanceParser::new);
    extensions.injectHintResolutionRule(Catalyst.ruleOf(LanceMergeTargets::new));
    extensions.injectHintResolutionRule(Catalyst.ruleOf(LanceJsonLengths::new));
    extensions.injectHintResolutionRule(Catalyst.ruleOf(LanceDescribeFunction::new));
    extensions.injectResolutionRule(Catalyst.rule(LanceStreamTexts::new));
    extensions.injectResolutionRule(Catalyst.rule(LanceInsertTargets::new));
    extensions.injectResolutionRule(Catalyst.ruleOf(LanceSessionNames::new));
    extensions.injectPostHocResolutionRule(Catalyst.rule(LanceTextSearches::new));
    MinorRules.inject(extensions);
    extensions.injectPlanNormalizationRule(Catalyst.ruleOf(LanceGeneratedColumns::new));
    extensions.injectPlanNormalizationRule(Catalyst.rule(LanceColumnUpdates::new));
    extensions.injectOptimizerRule(Catalyst.rule(LanceArrayConditions::new));
    extensions.injectOptimizerRule(Catalyst.rule(LanceFunctionTerms::new));
    LanceRules.inject(extensions);
    extensions.injectPreCBORule(Catalyst.rule(LanceNearestColumns::new));
    extensions.injectPlannerStrategy(session -> new LanceFoundRowsStrategy());
    extensions.injectPlannerStrategy(session -> new LanceShowCreateTable());
    extensions.injectPlannerStrategy(session -> new LanceShowTables());
  }

  private static void injectFunctions(SparkSessionExtensions extensions) {
    extensions.injectTableFunction(Catalyst.fn(OWNER, "lance_changes", null, null, LanceTableFunctions::changes));
    for (String name : LanceTableFunctions.NAMES) {
      extensions.injectTableFunction(
          Catalyst.fn(OWNER, name, null, null, arguments -> LanceTableFunctions.search(name, arguments)));
    }
    for (NamedFunction function : LanceFunctions.OF_VALUES) {
      extensions.injectFunction(
          Catalyst.fn(
              OWNER,
              function.sessionName(),
              function.sessionUsage(),
              function.group(),
              arguments -> Catalyst.call(function::bind, arguments)));
    }
    extensions.injectFunction(
        Catalyst.fn(OWNER, LanceReadBlob.NAME, LanceReadBlob.USAGE, "misc_funcs", LanceReadBlob::of));
  }

  /** Hands this jar to executors on other machines: it may be on the class path of the driver alone. */
  private static void giveToExecutors() {
    SparkContext context = SparkContext.getOrCreate();
    String jar = LanceExtensions.class.getProtectionDomain().getCodeSource().getLocation().toString();
    String name = jar.substring(jar.lastIndexOf('/') + 1);
    List<String> there = CollectionConverters.asJava(context.listJars());
    if (!context.isLocal() && there.stream().noneMatch(each -> each.endsWith("/" + name))) {
      context.addJar(jar);
    }
  }
}
