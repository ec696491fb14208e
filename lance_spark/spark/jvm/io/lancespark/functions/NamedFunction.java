package io.lancespark.functions;

import java.util.Arrays;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A function of the catalog before the types of its arguments are known. */
record NamedFunction(String name, String description, Function<DataType[], BoundFunction> binding)
    implements UnboundFunction {
  @Override
  public BoundFunction bind(StructType inputType) {
    DataType[] types = new DataType[inputType.size()];
    Arrays.setAll(types, place -> inputType.fields()[place].dataType());
    return binding.apply(types);
  }

  /** Whether one of the first {@code count} arguments is NULL. */
  static boolean hasNull(InternalRow arguments, int count) {
    for (int place = 0; place < count; place++) {
      if (arguments.isNullAt(place)) {
        return true;
      }
    }
    return false;
  }
}
