package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.Shims;
import io.lancespark.compat.Types;
import io.lancespark.table.WritableVersion;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;

/**
 * Makes strings of CHAR and VARCHAR in streams of a table, as Spark does in scans. Of streams it keeps the types of the
 * table, and then fails because a plan must not have them.
 */
public final class LanceStreamTexts extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    Map<ExprId, AttributeReference> replaced = new HashMap<>();
    LogicalPlan changed =
        (LogicalPlan)
            plan.transformUp(
                Catalyst.replacing(
                    node ->
                        node instanceof StreamingRelationV2 stream && stream.table() instanceof WritableVersion
                            ? withStrings(stream, replaced)
                            : null));
    return replaced.isEmpty() ? plan : withReferences(changed, replaced);
  }

  /** The stream with strings; null if it has no other texts. */
  private static LogicalPlan withStrings(StreamingRelationV2 stream, Map<ExprId, AttributeReference> replaced) {
    List<AttributeReference> columns = new ArrayList<>();
    boolean isChanged = false;
    for (AttributeReference column : Catalyst.list(stream.output())) {
      if (Types.hasCharOrVarchar(column.dataType())) {
        StructField declared = new StructField(column.name(), column.dataType(), column.nullable(), column.metadata());
        StructField field = Types.withStrings(declared);
        column = column.withDataType(field.dataType()).withMetadata(field.metadata());
        replaced.put(column.exprId(), column);
        isChanged = true;
      }
      columns.add(column);
    }
    return isChanged ? Shims.with(stream, columns) : null;
  }

  /** The plan with the new types in what was resolved by the columns before. */
  private static LogicalPlan withReferences(LogicalPlan plan, Map<ExprId, AttributeReference> replaced) {
    return (LogicalPlan)
        plan.transformAllExpressions(Catalyst.replacing(expression -> withString(expression, replaced)));
  }

  /**
   * The column with its new type. Before 4.3 Spark has added a cast where it compares the column with a string; with the
   * cast, it would not pad the string to the length of a CHAR.
   */
  private static Expression withString(Expression expression, Map<ExprId, AttributeReference> replaced) {
    Expression text = expression instanceof Cast cast && isAdded(cast) ? cast.child() : expression;
    return text instanceof AttributeReference column && replaced.containsKey(column.exprId())
        ? like(column, replaced.get(column.exprId()))
        : null;
  }

  private static boolean isAdded(Cast cast) {
    return DataTypes.StringType.equals(cast.dataType()) && cast.getTagValue(Cast.USER_SPECIFIED_CAST()).isEmpty();
  }

  private static AttributeReference like(AttributeReference column, AttributeReference other) {
    return column.withDataType(other.dataType()).withMetadata(other.metadata());
  }
}
