package io.lancespark;

import io.lancespark.functions.LanceBlobUri;
import io.lancespark.functions.LanceDistance;
import io.lancespark.functions.LanceGeoFunctions;
import io.lancespark.functions.LanceJsonFunctions;
import io.lancespark.functions.LanceTextFunctions;
import io.lancespark.optimizer.LanceArrayConditions;
import io.lancespark.optimizer.LanceFoundRowsStrategy;
import io.lancespark.optimizer.LanceFunctionTerms;
import io.lancespark.optimizer.LanceRules;
import io.lancespark.python.LancePlanner;
import io.lancespark.python.LanceSpark;
import io.lancespark.sql.LanceDescribedBlobs;
import io.lancespark.sql.LanceGeneratedColumns;
import io.lancespark.sql.LanceJsonLengths;
import io.lancespark.sql.LanceMergeInserts;
import io.lancespark.sql.LanceNearestColumns;
import io.lancespark.sql.LanceNearestJoins;
import io.lancespark.sql.LanceParser;
import io.lancespark.sql.LanceReadBlob;
import io.lancespark.sql.LanceShowCreateTable;
import io.lancespark.sql.LanceTableFunctions;
import io.lancespark.sql.LanceTextSearches;
import io.lancespark.streaming.LanceStreamTexts;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.types.DataType;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * The session extension: SQL statements that Spark's grammar lacks, table functions, and the optimizer rules.
 */
public final class LanceExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    LanceSpark.check();
    giveToExecutors();
    LancePlanner.start();
    LanceRules.inject(extensions);
    extensions.injectParser(
        new AbstractFunction2<SparkSession, ParserInterface, ParserInterface>() {
          @Override
          public ParserInterface apply(SparkSession session, ParserInterface delegate) {
            return new LanceParser((org.apache.spark.sql.classic.SparkSession) session, delegate);
          }
        });
    injectTableFunction(extensions, "lance_changes", LanceParser::changes);
    for (String name : LanceTableFunctions.NAMES) {
      injectTableFunction(extensions, name, arguments -> LanceTableFunctions.search(name, arguments));
    }
    extensions.injectResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceStreamTexts();
          }
        });
    extensions.injectResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceDescribedBlobs();
          }
        });
    extensions.injectPostHocResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceTextSearches();
          }
        });
    extensions.injectPostHocResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceNearestJoins();
          }
        });
    extensions.injectHintResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceMergeInserts((org.apache.spark.sql.classic.SparkSession) session);
          }
        });
    extensions.injectHintResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceJsonLengths((org.apache.spark.sql.classic.SparkSession) session);
          }
        });
    extensions.injectPlanNormalizationRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceGeneratedColumns((org.apache.spark.sql.classic.SparkSession) session);
          }
        });
    extensions.injectOptimizerRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceArrayConditions();
          }
        });
    extensions.injectOptimizerRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceFunctionTerms();
          }
        });
    extensions.injectPreCBORule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new LanceNearestColumns();
          }
        });
    extensions.injectPlannerStrategy(
        new AbstractFunction1<SparkSession, SparkStrategy>() {
          @Override
          public SparkStrategy apply(SparkSession session) {
            return new LanceFoundRowsStrategy();
          }
        });
    extensions.injectPlannerStrategy(
        new AbstractFunction1<SparkSession, SparkStrategy>() {
          @Override
          public SparkStrategy apply(SparkSession session) {
            return new LanceShowCreateTable();
          }
        });
    for (String name : LanceTextFunctions.NAMES) {
      injectFunction(
          extensions, name, LanceTextFunctions.usage(name), "predicate_funcs", arguments -> predicate(name, arguments));
    }
    for (String name : LanceJsonFunctions.NAMES) {
      String injected = name.equals(LanceJsonFunctions.LENGTH) ? LanceJsonFunctions.LENGTH_AT : name;
      injectFunction(
          extensions,
          injected,
          LanceJsonFunctions.usage(injected),
          "json_funcs",
          arguments -> call(LanceJsonFunctions.bind(name, types(arguments)), arguments));
    }
    for (String name : LanceGeoFunctions.NAMES) {
      injectFunction(
          extensions,
          name,
          LanceGeoFunctions.usage(name),
          "st_funcs",
          arguments -> call(LanceGeoFunctions.bind(name, types(arguments)), arguments));
    }
    for (String name : LanceBlobUri.NAMES) {
      injectFunction(
          extensions,
          name,
          LanceBlobUri.usage(name),
          "misc_funcs",
          arguments -> call(LanceBlobUri.bind(name, types(arguments)), arguments));
    }
    injectFunction(
        extensions,
        LanceDistance.NAME,
        LanceDistance.USAGE,
        "array_funcs",
        arguments -> call(LanceDistance.bind(types(arguments)), arguments));
    injectFunction(extensions, LanceReadBlob.NAME, LanceReadBlob.USAGE, "misc_funcs", LanceReadBlob::of);
    return BoxedUnit.UNIT;
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

  private static Expression predicate(String name, List<Expression> arguments) {
    return call(LanceTextFunctions.bind(name, types(arguments)), arguments);
  }

  private static DataType[] types(List<Expression> arguments) {
    return arguments.stream().map(Expression::dataType).toArray(DataType[]::new);
  }

  private static Expression call(ScalarFunction<?> function, List<Expression> arguments) {
    return new ApplyFunctionExpression(function, CollectionConverters.asScala(arguments).toSeq());
  }

  private static void injectFunction(
      SparkSessionExtensions extensions,
      String name,
      String usage,
      String group,
      Function<List<Expression>, Expression> function) {
    extensions.injectFunction(
        new Tuple3<>(
            FunctionIdentifier.apply(name),
            new ExpressionInfo(LanceExtensions.class.getName(), null, name, usage, "", "", "", group, "", "", ""),
            new AbstractFunction1<Seq<Expression>, Expression>() {
              @Override
              public Expression apply(Seq<Expression> arguments) {
                return function.apply(CollectionConverters.asJava(arguments));
              }
            }));
  }

  private static void injectTableFunction(
      SparkSessionExtensions extensions, String name, Function<List<Expression>, LogicalPlan> function) {
    extensions.injectTableFunction(
        new Tuple3<>(
            FunctionIdentifier.apply(name),
            new ExpressionInfo(LanceExtensions.class.getName(), name),
            new AbstractFunction1<Seq<Expression>, LogicalPlan>() {
              @Override
              public LogicalPlan apply(Seq<Expression> arguments) {
                return function.apply(CollectionConverters.asJava(arguments));
              }
            }));
  }
}
