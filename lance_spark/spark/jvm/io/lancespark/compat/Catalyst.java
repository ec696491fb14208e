package io.lancespark.compat;

import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import scala.Function1;
import scala.PartialFunction;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Java's functions and lists in the Scala types that Catalyst takes, and back. */
public final class Catalyst {
  private Catalyst() {}

  public static <T> List<T> list(Seq<T> items) {
    return CollectionConverters.asJava(items);
  }

  @SuppressWarnings("unchecked")
  public static <T> Seq<T> seq(List<? extends T> items) {
    return (Seq<T>) CollectionConverters.asScala(items).toSeq();
  }

  /** A partial function that is undefined where {@code replace} returns null. */
  public static <N, R> PartialFunction<N, R> replacing(Function<? super N, ? extends R> replace) {
    return new AbstractPartialFunction<>() {
      @Override
      public boolean isDefinedAt(N node) {
        return replace.apply(node) != null;
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends N, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        R replaced = replace.apply(node);
        return replaced == null ? otherwise.apply(node) : (B) replaced;
      }
    };
  }

  /** A rule that needs no session, as a builder for Spark's extensions. */
  public static Function1<SparkSession, Rule<LogicalPlan>> rule(Supplier<Rule<LogicalPlan>> rule) {
    return session -> rule.get();
  }

  /** A rule of one session, as a builder for Spark's extensions. */
  public static Function1<SparkSession, Rule<LogicalPlan>> ruleOf(
      Function<org.apache.spark.sql.classic.SparkSession, Rule<LogicalPlan>> rule) {
    return session -> rule.apply((org.apache.spark.sql.classic.SparkSession) session);
  }

  /**
   * A function for the registry of a session; {@code R} is an expression, or a plan for table functions.
   *
   * @param group of functions in Spark's documentation; null for table functions
   */
  public static <R> Tuple3<FunctionIdentifier, ExpressionInfo, Function1<Seq<Expression>, R>> fn(
      String owner, String name, String usage, String group, Function<List<Expression>, R> function) {
    ExpressionInfo info =
        group == null
            ? new ExpressionInfo(owner, name)
            : new ExpressionInfo(owner, null, name, usage, "", "", "", group, "", "", "");
    return new Tuple3<>(FunctionIdentifier.apply(name), info, arguments -> function.apply(list(arguments)));
  }

  /** The call of a function of a catalog, which is bound to the types of the arguments. */
  public static Expression call(Function<DataType[], BoundFunction> bind, List<Expression> arguments) {
    DataType[] types = arguments.stream().map(Expression::dataType).toArray(DataType[]::new);
    return new ApplyFunctionExpression((ScalarFunction<?>) bind.apply(types), seq(arguments));
  }
}
