package io.lancespark.functions;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.ArraysOverlap;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's {@code array_contains} and {@code arrays_overlap} of a list and constants, as functions of a catalog: Spark
 * hands sources no other ones.
 */
public final class LanceArrayFunctions {
  /** Longer lists of constants stay with Spark. */
  private static final int MAX_ITEMS = 1000;

  private LanceArrayFunctions() {}

  /** The call of a function that means the same as an expression of Spark; null if there is none. */
  public static ApplyFunctionExpression call(Expression expression) {
    List<Expression> arguments = new ArrayList<>();
    if (expression instanceof ArrayContains contains && isConstant(contains.right())) {
      arguments.add(contains.left());
      arguments.add(contains.right());
    } else if (expression instanceof ArraysOverlap overlap
        && overlap.right() instanceof Literal items
        && items.value() instanceof ArrayData values
        && items.dataType() instanceof ArrayType type
        && type.elementType() instanceof AtomicType
        && values.numElements() <= MAX_ITEMS) {
      arguments.add(overlap.left());
      for (int place = 0; place < values.numElements(); place++) {
        arguments.add(new Literal(values.get(place, type.elementType()), type.elementType()));
      }
    }
    boolean hasItems = arguments.size() > 1 && arguments.stream().skip(1).allMatch(LanceArrayFunctions::isConstant);
    if (!hasItems) {
      return null;
    }
    List<DataType> types = arguments.stream().map(Expression::dataType).toList();
    return new ApplyFunctionExpression(
        new Contains(expression, types), CollectionConverters.asScala(arguments).toSeq());
  }

  /** The expression of Spark that a call stands for; null if it is a call of another function. */
  public static Expression replaced(ApplyFunctionExpression call) {
    if (!(call.function() instanceof Contains function)) {
      return null;
    }
    Seq<Expression> children = function.original().children();
    List<Expression> arguments = new ArrayList<>(CollectionConverters.asJava(children));
    arguments.set(0, call.children().apply(0));
    return (Expression) function.original().withNewChildren(CollectionConverters.asScala(arguments).toSeq());
  }

  private static boolean isConstant(Expression expression) {
    return expression instanceof Literal item && item.value() != null && item.dataType() instanceof AtomicType;
  }

  private record Contains(Expression original, List<DataType> types) implements ScalarFunction<Boolean> {
    @Override
    public String name() {
      return original.prettyName();
    }

    @Override
    public String canonicalName() {
      return "io.lancespark." + name();
    }

    @Override
    public DataType[] inputTypes() {
      return types.toArray(new DataType[0]);
    }

    @Override
    public DataType resultType() {
      return DataTypes.BooleanType;
    }

    @Override
    public Boolean produceResult(InternalRow row) {
      Expression list = new BoundReference(0, types.get(0), true);
      Seq<Expression> children = original.children();
      List<Expression> arguments = new ArrayList<>(CollectionConverters.asJava(children));
      arguments.set(0, list);
      Expression bound = (Expression) original.withNewChildren(CollectionConverters.asScala(arguments).toSeq());
      return (Boolean) bound.eval(row);
    }
  }
}
