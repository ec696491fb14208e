package io.lancespark.functions;

import java.util.Arrays;
import java.util.List;
import java.util.function.IntFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NullType;

/** A function of the catalog for arguments of known types. */
interface TypedFunction<T> extends ScalarFunction<T> {
  List<DataType> types();

  @Override
  default DataType[] inputTypes() {
    return types().toArray(new DataType[0]);
  }

  @Override
  default String canonicalName() {
    return "io.lancespark." + name();
  }

  /** The types with {@code otherwise} in place of those of NULL. */
  static List<DataType> withoutNull(DataType[] types, IntFunction<DataType> otherwise) {
    DataType[] inputs = types.clone();
    Arrays.setAll(inputs, place -> types[place] instanceof NullType ? otherwise.apply(place) : types[place]);
    return List.of(inputs);
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
