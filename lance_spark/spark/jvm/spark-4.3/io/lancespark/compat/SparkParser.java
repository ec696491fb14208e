package io.lancespark.compat;

import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.parser.TemporalIdentifier;

/** The methods of parsers that this Spark has. */
public abstract class SparkParser extends ParametersParser {
  protected SparkParser(ParserInterface delegate) {
    super(delegate);
  }

  @Override
  public TemporalIdentifier parseTemporalTableIdentifier(String text) throws ParseException {
    return delegate.parseTemporalTableIdentifier(text);
  }

  @Override
  public SqlStatementSplitResult splitStatements(String text) {
    return delegate.splitStatements(text);
  }
}
