package io.lancespark.functions;

import io.lancespark.python.LanceException;
import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A function of the catalog before the types of its arguments are known.
 *
 * @param sessionName its name in sessions; null if only the catalog has it
 * @param meaning arguments and result, as in {@code (json, '$.path') - what is at a path}
 * @param group in Spark's documentation of functions
 * @param binding returns the function for arguments of these types, or null if it does not take them
 */
public record NamedFunction(String name, String sessionName, String meaning, String group, Binding binding)
    implements UnboundFunction {
  /** Chooses the function for types of arguments. */
  interface Binding {
    BoundFunction bind(DataType[] types);
  }

  /** A function that has its name in sessions too. */
  static NamedFunction of(String name, String group, String meaning, Binding binding) {
    return new NamedFunction(name, name, meaning, group, binding);
  }

  @Override
  public String description() {
    return name + meaning;
  }

  /** The description under the name that sessions have for it. */
  public String sessionUsage() {
    return sessionName + meaning;
  }

  @Override
  public BoundFunction bind(StructType inputType) {
    DataType[] types = new DataType[inputType.size()];
    Arrays.setAll(types, place -> inputType.fields()[place].dataType());
    return bind(types);
  }

  /**
   * The function for arguments of these types.
   *
   * @throws LanceException (unchecked) if it does not take them
   */
  public BoundFunction bind(DataType[] types) {
    BoundFunction bound = binding.bind(types);
    if (bound == null) {
      throw LanceException.invalid(
          name + " does not take arguments of types " + Arrays.toString(types) + "; use it as " + description());
    }
    return bound;
  }
}
