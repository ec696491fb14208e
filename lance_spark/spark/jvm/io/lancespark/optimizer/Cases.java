package io.lancespark.optimizer;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A partial function of plan nodes, undefined where {@code of} is null. */
public abstract class Cases<T> extends AbstractPartialFunction<LogicalPlan, T> {
  protected abstract T of(LogicalPlan node);

  @Override
  public boolean isDefinedAt(LogicalPlan node) {
    return of(node) != null;
  }

  @Override
  @SuppressWarnings("unchecked")
  public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
    T found = of(node);
    return found == null ? otherwise.apply(node) : (B) found;
  }
}
