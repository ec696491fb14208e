package io.lancespark.compat;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.NamedParameterContext;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** A parser that gets the parameters of a statement with its text, as Spark hands them over from 4.1 on. */
public abstract class ParametersParser extends ForwardingParser {
  protected ParametersParser(ParserInterface delegate) {
    super(delegate);
  }

  @Override
  public LogicalPlan parsePlanWithParameters(String text, ParameterContext parameters) throws ParseException {
    Function<String, Expression> values =
        name ->
            parameters instanceof NamedParameterContext named
                ? named.params().get(name).getOrElse(() -> null)
                : null;
    return delegate.parsePlanWithParameters(rewritten(text, values), parameters);
  }
}
