package io.lancespark.compat;

import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric$;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Runners of Python functions over Arrow batches. */
final class ArrowRunners {
  private ArrowRunners() {}

  static ArrowPythonRunner of(
      Seq<Tuple2<ChainedPythonFunctions, Object>> functions,
      int evalType,
      StructType input,
      String timeZone,
      boolean largeTypes,
      Map<String, String> conf,
      String artifacts) {
    return new ArrowPythonRunner(
        functions,
        evalType,
        new int[][] {{0}},
        input,
        timeZone,
        largeTypes,
        conf,
        PythonCustomMetric$.MODULE$.pythonMetrics(),
        Option.apply(artifacts),
        Option.empty());
  }
}
