package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.NodeCopies;
import io.lancespark.compat.Relations;
import io.lancespark.write.LanceRowLevelOperation;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SortOrder$;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.VariantType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Lets UPDATE and MERGE read and hand over only the columns that they change, where the table may write these into new
 * files of their fragments.
 *
 * <p>Spark hands an updated row over with all of its columns. This rule puts NULL in place of those that keep their
 * values, so that the scan leaves them out, and brings the rows of each fragment together in one task.
 */
public final class LanceColumnUpdates extends Rule<LogicalPlan> {
  private static final int BITS_OF_OFFSET = 32;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof WriteDelta write
        && write.table() instanceof DataSourceV2Relation relation
        && relation.table() instanceof RowLevelOperationTable table
        && table.operation() instanceof LanceRowLevelOperation operation
        && operation.command() != RowLevelOperation.Command.DELETE
        && !operation.changesColumns()) {
      return changed(write, relation, table, operation);
    }
    return plan;
  }

  private static LogicalPlan changed(
      WriteDelta write, DataSourceV2Relation relation, RowLevelOperationTable table, LanceRowLevelOperation operation) {
    Rows rows = new Rows(Catalyst.list(relation.output()));
    if (!rows.read(write.query())) {
      return write;
    }
    List<String> names = IntStream.range(0, rows.columns.size())
        .filter(index -> !rows.isKept[index])
        .mapToObj(index -> rows.columns.get(index).name())
        .toList();
    LanceRowLevelOperation narrow = names.size() == rows.columns.size() ? null : operation.changing(names);
    if (narrow == null) {
      return write;
    }
    LogicalPlan query = byFragment(rows.narrow(write.query()), operation, rows);
    WriteDelta narrowed = (WriteDelta) write.withNewQuery(query);
    return (LogicalPlan) narrowed.withNewTable(
        Relations.with(relation, new RowLevelOperationTable(table.table(), narrow)));
  }

  /** The rows of each fragment in one task, and one after the other; new rows in any task. */
  private static LogicalPlan byFragment(LogicalPlan query, LanceRowLevelOperation operation, Rows rows) {
    List<Attribute> output = Catalyst.list(query.output());
    List<Attribute> ids = new ArrayList<>();
    for (var reference : operation.rowId()) {
      String name = reference.fieldNames()[0];
      // Before the identifiers are the operation and the columns of the table.
      ids.add(output.stream().skip(1 + rows.columns.size()).filter(each -> each.name().equals(name)).findFirst().orElseThrow());
    }
    Expression fragment = new ShiftRight(ids.get(ids.size() - 1), new Literal(BITS_OF_OFFSET, DataTypes.IntegerType));
    List<Expression> hashed = new ArrayList<>();
    for (Attribute column : output.subList(1, 1 + rows.columns.size())) {
      if (column.dataType() instanceof AtomicType && !(column.dataType() instanceof VariantType)) {
        hashed.add(column);
      }
    }
    if (query instanceof MergeRows && !hashed.isEmpty()) {
      fragment = new Coalesce(Catalyst.seq(List.of(fragment, new XxHash64(Catalyst.seq(hashed)))));
    }
    List<Expression> keys = new ArrayList<>(ids.subList(0, ids.size() - 1));
    keys.add(fragment);
    LogicalPlan divided =
        new RepartitionByExpression(Catalyst.seq(keys), query, Option.empty(), Option.empty());
    List<SortOrder> order = new ArrayList<>();
    ids.forEach(id -> order.add(SortOrder$.MODULE$.apply(id, Ascending$.MODULE$, Catalyst.seq(List.of()))));
    return new Sort(Catalyst.seq(order), false, divided, Option.empty());
  }

  /** The rows of a statement, which have the operation before the columns of the table. */
  private static final class Rows {
    private final List<AttributeReference> columns;
    /** Whether all updates leave a column as it is. */
    private final boolean[] isKept;

    Rows(List<AttributeReference> columns) {
      this.columns = columns;
      this.isKept = new boolean[columns.size()];
    }

    /** Whether NULL stands in place of the value of a column, which has to allow it. */
    private boolean isNull(int index) {
      return isKept[index] && columns.get(index).nullable();
    }

    /** Finds the columns that all updates of a query leave as they are; false if none can be left out. */
    boolean read(LogicalPlan query) {
      List<List<Expression>> updates = new ArrayList<>();
      if (query instanceof Project project) {
        List<Expression> row = Catalyst.list(project.projectList()).stream().map(Expression.class::cast).toList();
        if (isUpdate(row)) {
          updates.add(row);
        }
      } else if (query instanceof MergeRows merge) {
        for (var instructions : List.of(merge.matchedInstructions(), merge.notMatchedBySourceInstructions())) {
          for (var instruction : Catalyst.list(instructions)) {
            if (instruction instanceof MergeRows.Split) {
              return false;
            }
            if (instruction instanceof MergeRows.Keep keep && isUpdate(Catalyst.list(keep.output()))) {
              updates.add(Catalyst.list(keep.output()));
            }
          }
        }
      }
      boolean keepsAny = false;
      for (int index = 0; index < columns.size() && !updates.isEmpty(); index++) {
        int place = index;
        isKept[index] = updates.stream().allMatch(row -> isOld(row, place));
        keepsAny |= isNull(index);
      }
      return keepsAny;
    }

    LogicalPlan narrow(LogicalPlan query) {
      if (query instanceof Project project) {
        List<Expression> row = Catalyst.list(project.projectList()).stream().map(Expression.class::cast).toList();
        return new Project((Seq<NamedExpression>) (Seq<?>) Catalyst.seq(narrow(row)), project.child());
      }
      MergeRows merge = (MergeRows) query;
      return merge.copy(
          merge.isSourceRowPresent(),
          merge.isTargetRowPresent(),
          narrowed(merge.matchedInstructions()),
          merge.notMatchedInstructions(),
          narrowed(merge.notMatchedBySourceInstructions()),
          merge.checkCardinality(),
          merge.output(),
          merge.child());
    }

    private Seq<MergeRows.Instruction> narrowed(Seq<MergeRows.Instruction> instructions) {
      List<MergeRows.Instruction> result = new ArrayList<>();
      for (MergeRows.Instruction instruction : Catalyst.list(instructions)) {
        boolean isUpdate = instruction instanceof MergeRows.Keep keep && isUpdate(Catalyst.list(keep.output()));
        result.add(
            isUpdate
                ? NodeCopies.with(
                    (MergeRows.Keep) instruction,
                    Catalyst.seq(narrow(Catalyst.list(((MergeRows.Keep) instruction).output()))))
                : instruction);
      }
      return Catalyst.seq(result);
    }

    private List<Expression> narrow(List<Expression> row) {
      List<Expression> result = new ArrayList<>(row);
      for (int index = 0; index < isKept.length; index++) {
        if (isNull(index)) {
          Expression value = row.get(1 + index);
          Literal nothing = new Literal(null, columns.get(index).dataType());
          result.set(1 + index, value instanceof NamedExpression named ? named(named, nothing) : nothing);
        }
      }
      return result;
    }

    /** A value under the name of another one: an alias keeps its identifier, a column of the table needs a new one. */
    private static Expression named(NamedExpression value, Expression other) {
      var id = value instanceof Alias ? value.exprId() : NamedExpression.newExprId();
      return new Alias(
          other, value.name(), id, Catalyst.seq(List.of()), Option.empty(), Catalyst.seq(List.of()));
    }

    private static boolean isUpdate(List<Expression> row) {
      return valueOf(row.get(0)) instanceof Literal literal
          && literal.value() instanceof Integer number
          && number == RowDeltaUtils.UPDATE_OPERATION();
    }

    private boolean isOld(List<Expression> row, int index) {
      return valueOf(row.get(1 + index)) instanceof Attribute attribute
          && attribute.exprId().equals(columns.get(index).exprId());
    }

    private static Expression valueOf(Expression expression) {
      return expression instanceof Alias alias ? alias.child() : expression;
    }
  }
}
