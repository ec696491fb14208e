package io.lancespark;

import io.lancespark.optimizer.LanceRules;
import io.lancespark.python.LancePlanner;
import io.lancespark.python.LanceSpark;
import io.lancespark.sql.LanceParser;
import io.lancespark.sql.LanceReadBlob;
import io.lancespark.sql.LanceTableFunctions;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
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
    LancePlanner.start();
    LanceRules.inject(extensions);
    extensions.injectParser(
        new AbstractFunction2<SparkSession, ParserInterface, ParserInterface>() {
          @Override
          public ParserInterface apply(SparkSession session, ParserInterface delegate) {
            return new LanceParser((org.apache.spark.sql.classic.SparkSession) session, delegate);
          }
        });
    inject(extensions, "lance_changes", LanceParser::changes);
    for (String name : LanceTableFunctions.NAMES) {
      inject(extensions, name, arguments -> LanceTableFunctions.search(name, arguments));
    }
    injectFunction(extensions, LanceReadBlob.NAME, LanceReadBlob::of);
    return BoxedUnit.UNIT;
  }

  private static void injectFunction(
      SparkSessionExtensions extensions, String name, Function<List<Expression>, Expression> function) {
    extensions.injectFunction(
        new Tuple3<>(
            FunctionIdentifier.apply(name),
            new ExpressionInfo(LanceExtensions.class.getName(), name),
            new AbstractFunction1<Seq<Expression>, Expression>() {
              @Override
              public Expression apply(Seq<Expression> arguments) {
                return function.apply(CollectionConverters.asJava(arguments));
              }
            }));
  }

  private static void inject(
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
