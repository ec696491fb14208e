package io.lancespark.compat;

import org.apache.spark.sql.catalyst.parser.ParserInterface;

/** The methods of parsers that this Spark has. */
public abstract class SparkParser extends ParametersParser {
  protected SparkParser(ParserInterface delegate) {
    super(delegate);
  }
}
