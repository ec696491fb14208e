package io.lancespark.compat;

import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The methods of parsers that this Spark has. It binds parameters of statements after it has parsed them. */
public abstract class SparkParser extends ForwardingParser {
  protected SparkParser(ParserInterface delegate) {
    super(delegate);
  }

  @Override
  public LogicalPlan parsePlan(String text) throws ParseException {
    return delegate.parsePlan(
        rewritten(
            text,
            name -> {
              throw new UnsupportedOperationException(
                  "Spark 4.0 binds the parameter :" + name + " after the statement is parsed; write the name of the"
                      + " table into the statement, or CALL the procedure of the statement in the catalog");
            }));
  }
}
