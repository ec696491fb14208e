package io.lancespark.compat;

import org.apache.spark.sql.catalyst.parser.ParserInterface;

/** The methods of parsers that this Spark has. It binds parameters of statements after it has parsed them. */
public abstract class SparkParser extends ForwardingParser {
  protected SparkParser(ParserInterface delegate) {
    super(delegate);
  }
}
