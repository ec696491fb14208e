package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import io.lancespark.functions.LanceJsonFunctions;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.LengthOfJsonArray;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;

/**
 * Calls of {@code json_array_length} with a path are ours. Spark has a function of this name that takes the document
 * alone, and stays what it is: so ours has another name, which calls get before Spark looks them up.
 */
public final class LanceJsonLengths extends Rule<LogicalPlan> {
  private static final int ARGUMENTS = 2;

  private final SparkSession session;

  public LanceJsonLengths(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformAllExpressions(
            Catalyst.replacing(
                expression -> expression instanceof UnresolvedFunction call && isOurs(call) ? renamed(call) : null));
  }

  private static Expression renamed(UnresolvedFunction call) {
    return call.copy(
        Catalyst.seq(List.of(LanceJsonFunctions.LENGTH_AT)), call.arguments(), call.isDistinct(), call.filter(),
        call.ignoreNulls(), call.orderingWithinGroup(), call.isInternal());
  }

  private boolean isOurs(UnresolvedFunction call) {
    List<String> parts = Catalyst.list(call.nameParts());
    boolean isNamed = parts.size() == 1 && parts.get(0).toLowerCase(Locale.ROOT).equals(LanceJsonFunctions.LENGTH);
    return isNamed && call.arguments().size() == ARGUMENTS && isOfSpark();
  }

  /** Whether the session has Spark's function of this name, and not one that its user has registered. */
  private boolean isOfSpark() {
    Option<ExpressionInfo> function =
        session.sessionState().catalog().lookupBuiltinOrTempFunction(LanceJsonFunctions.LENGTH);
    return function.isDefined() && function.get().getClassName().equals(LengthOfJsonArray.class.getName());
  }
}
