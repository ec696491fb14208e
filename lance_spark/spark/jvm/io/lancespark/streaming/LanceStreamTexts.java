package io.lancespark.streaming;

import io.lancespark.catalog.LanceTable;
import io.lancespark.optimizer.Cases;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Makes strings of CHAR and VARCHAR in streams of a table, as Spark does in scans. Of streams it keeps the types of the
 * table, and then fails because a plan must not have them.
 */
public final class LanceStreamTexts extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    Map<ExprId, AttributeReference> replaced = new HashMap<>();
    LogicalPlan found = (LogicalPlan) plan.transformUp(new Cases<LogicalPlan>() {
      @Override
      protected LogicalPlan of(LogicalPlan node) {
        return node instanceof StreamingRelationV2 stream && stream.table() instanceof LanceTable
            ? withStrings(stream, replaced)
            : null;
      }
    });
    return replaced.isEmpty() ? plan : withReferences(found, replaced);
  }

  /** The stream with strings; null if it has no other texts. */
  private static LogicalPlan withStrings(StreamingRelationV2 stream, Map<ExprId, AttributeReference> replaced) {
    List<AttributeReference> columns = new ArrayList<>();
    boolean isChanged = false;
    for (AttributeReference column : CollectionConverters.asJava(stream.output())) {
      if (CharVarcharUtils.hasCharVarchar(column.dataType())) {
        StructField declared = new StructField(column.name(), column.dataType(), column.nullable(), column.metadata());
        StructType one = new StructType(new StructField[] {declared});
        StructField field = CharVarcharUtils.replaceCharVarcharWithStringInSchema(one).fields()[0];
        column = column.withDataType(field.dataType()).withMetadata(field.metadata());
        replaced.put(column.exprId(), column);
        isChanged = true;
      }
      columns.add(column);
    }
    return !isChanged ? null : stream.copy(
        stream.source(), stream.sourceName(), stream.table(), stream.extraOptions(),
        CollectionConverters.asScala(columns).toSeq(), stream.catalog(), stream.identifier(), stream.v1Relation(),
        stream.sourceIdentifyingName());
  }

  /** The plan with the new types in what was resolved by the columns before. */
  private static LogicalPlan withReferences(LogicalPlan plan, Map<ExprId, AttributeReference> replaced) {
    return (LogicalPlan) plan.transformAllExpressions(new AbstractPartialFunction<Expression, Expression>() {
      @Override
      public boolean isDefinedAt(Expression expression) {
        return expression instanceof AttributeReference column && replaced.containsKey(column.exprId());
      }

      @Override
      public Expression apply(Expression expression) {
        AttributeReference column = (AttributeReference) expression;
        AttributeReference like = replaced.get(column.exprId());
        return column.withDataType(like.dataType()).withMetadata(like.metadata());
      }
    });
  }
}
