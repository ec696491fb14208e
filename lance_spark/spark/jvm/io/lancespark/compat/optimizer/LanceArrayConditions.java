package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.Relations;
import io.lancespark.table.WritableVersion;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.ArraysOverlap;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;

/**
 * Hands {@code array_contains} and {@code arrays_overlap} of a column and constants to scans, which have indexes of
 * list items. Spark has no form of them for sources, so above a table they become functions of the connector.
 */
public final class LanceArrayConditions extends Rule<LogicalPlan> {
  /** Longer lists of constants stay with Spark. */
  private static final int MAX_ITEMS = 1000;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformDown(
            Catalyst.replacing(
                node ->
                    node instanceof Filter filter
                            && filter.child() instanceof DataSourceV2Relation relation
                            && Relations.changed(relation.table()) instanceof WritableVersion
                        ? with(filter, handed(filter.condition()))
                        : null));
  }

  /** Only terms of AND, OR and NOT: scans take nothing else. */
  private static Expression handed(Expression condition) {
    if (condition instanceof And and) {
      return new And(handed(and.left()), handed(and.right()));
    }
    if (condition instanceof Or or) {
      return new Or(handed(or.left()), handed(or.right()));
    }
    if (condition instanceof Not not) {
      return new Not(handed(not.child()));
    }
    ApplyFunctionExpression call = call(condition);
    return call != null && isColumn(call.children().apply(0)) ? call : condition;
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof Attribute
        || (expression instanceof GetStructField member && isColumn(member.child()));
  }

  /** A filter with another condition; null if it is the same. */
  private static LogicalPlan with(Filter filter, Expression condition) {
    return condition.fastEquals(filter.condition()) ? null : new Filter(condition, filter.child());
  }

  /** Conditions that no scan has taken are Spark's own again, which it compiles. */
  public static final class Left extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return (LogicalPlan)
          plan.transformDown(
              Catalyst.replacing(
                  node -> node instanceof Filter filter ? with(filter, original(filter.condition())) : null));
    }

    private static Expression original(Expression condition) {
      return (Expression)
          condition.transformDown(
              Catalyst.replacing(
                  term -> term instanceof ApplyFunctionExpression call ? replaced(call) : null));
    }
  }

  /** The call of a function that means the same as an expression of Spark; null if there is none. */
  private static ApplyFunctionExpression call(Expression expression) {
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
    boolean hasItems = arguments.size() > 1 && arguments.stream().skip(1).allMatch(LanceArrayConditions::isConstant);
    if (!hasItems) {
      return null;
    }
    List<DataType> types = arguments.stream().map(Expression::dataType).toList();
    return new ApplyFunctionExpression(
        new Contains(expression, types), Catalyst.seq(arguments));
  }

  /** The expression of Spark that a call stands for; null if it is a call of another function. */
  private static Expression replaced(ApplyFunctionExpression call) {
    if (!(call.function() instanceof Contains function)) {
      return null;
    }
    Seq<Expression> children = function.original().children();
    List<Expression> arguments = new ArrayList<>(Catalyst.list(children));
    arguments.set(0, call.children().apply(0));
    return (Expression) function.original().withNewChildren(Catalyst.seq(arguments));
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
      List<Expression> arguments = new ArrayList<>(Catalyst.list(children));
      arguments.set(0, list);
      Expression bound = (Expression) original.withNewChildren(Catalyst.seq(arguments));
      return (Boolean) bound.eval(row);
    }
  }
}
