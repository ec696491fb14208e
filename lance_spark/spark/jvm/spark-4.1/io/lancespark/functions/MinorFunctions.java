package io.lancespark.functions;

import java.util.List;

/** The functions that only some versions of Spark have the types for. */
final class MinorFunctions {
  static final List<NamedFunction> ALL = LanceGeoFunctions.ALL;

  private MinorFunctions() {}
}
