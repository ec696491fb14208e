package io.lancespark.compat.analysis;

import io.lancespark.catalog.LanceTable;
import io.lancespark.compat.Catalyst;
import io.lancespark.compat.NodeCopies;
import io.lancespark.compat.Shims;
import io.lancespark.python.LanceException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Computes the generated columns that an UPDATE, a MERGE or an INSERT WITH SCHEMA EVOLUTION does not set, from the new
 * values of the row, and refuses values for identity columns that are GENERATED ALWAYS.
 *
 * <p>Spark refuses both for tables that it knows to have generated columns, so for them these tables have none, and Spark
 * copies the old value, or NULL for a new row. Tasks check every row, also those with values of this rule.
 */
public final class LanceGeneratedColumns extends Rule<LogicalPlan> {
  private final SparkSession session;

  public LanceGeneratedColumns(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof WriteDelta write && isComputed(write.originalTable())) {
      return (LogicalPlan) write.withNewQuery(new Rows(write.originalTable(), 1).computed(write.query()));
    }
    if (plan instanceof V2WriteCommand write
        && (Shims.isInsertOnlyMerge(plan) ? isComputed(write.table()) : !generated(write.table()).isEmpty())) {
      return (LogicalPlan) write.withNewQuery(new Rows(write.table(), 0).computed(write.query()));
    }
    return plan;
  }

  /** Whether the values of some columns are not, or not all, chosen by statements. */
  private static boolean isComputed(NamedRelation relation) {
    return !generated(relation).isEmpty() || !fixed(relation).isEmpty();
  }

  /** The identity columns of a table whose values no statement chooses. */
  private static List<String> fixed(NamedRelation relation) {
    return relation instanceof DataSourceV2Relation target && target.table() instanceof LanceTable table
        ? table.fixedColumns()
        : List.of();
  }

  /** The expressions of a table that this rule computes, by column. */
  private static Map<String, String> generated(NamedRelation relation) {
    return relation instanceof DataSourceV2Relation target && target.table() instanceof LanceTable table
        ? table.computed()
        : Map.of();
  }

  /** The new rows of one table. */
  private final class Rows {
    private final List<Attribute> columns;
    private final Map<Integer, Expression> values = new HashMap<>();
    private final List<Integer> fixed = new ArrayList<>();
    private final int first;

    /**
     * @param first the place of the table's first column among those of the rows; before it is the operation
     */
    Rows(NamedRelation table, int first) {
      this.first = first;
      this.columns = Catalyst.list(((DataSourceV2Relation) table).output()).stream().map(Attribute.class::cast).toList();
      generated(table).forEach(this::resolve);
      List<String> names = fixed(table);
      for (int index = 0; index < columns.size(); index++) {
        if (names.contains(columns.get(index).name())) {
          fixed.add(index);
        }
      }
    }

    private void resolve(String name, String text) {
      for (int index = 0; index < columns.size(); index++) {
        Attribute column = columns.get(index);
        if (column.name().equals(name)) {
          values.put(index, resolved(column, text));
        }
      }
    }

    private Expression resolved(Attribute column, String text) {
      try {
        Expression parsed = session.sessionState().sqlParser().parseExpression(text);
        Expression cast = new Cast(parsed, column.dataType(), Option.empty(), EvalMode.ANSI());
        Alias named = new Alias(cast, column.name(), NamedExpression.newExprId(), Catalyst.seq(List.of()), Option.empty(), Catalyst.seq(List.of()));
        LocalRelation row = new LocalRelation(Catalyst.seq(columns), Catalyst.seq(List.of()), false, Option.empty());
        Project analyzed = (Project) session.sessionState().analyzer().execute(new Project(Catalyst.seq(List.of(named)), row));
        Expression value = ((Alias) analyzed.projectList().head()).child();
        return column.nullable() ? value : new AssertNotNull(value, Catalyst.seq(List.of(column.name())));
      } catch (ParseException error) {
        throw LanceException.sneaky(error);
      }
    }

    LogicalPlan computed(LogicalPlan query) {
      if (query instanceof Filter filter) {
        return new Filter(filter.condition(), computed(filter.child())); // Conditions of CHECK constraints.
      }
      if (query instanceof Project project) {
        List<Expression> row = Catalyst.list(project.projectList()).stream().map(Expression.class::cast).toList();
        return new Project((Seq<NamedExpression>) (Seq<?>) Catalyst.seq(computed(row)), project.child());
      }
      return query instanceof MergeRows rows ? computed(rows) : query;
    }

    private MergeRows computed(MergeRows rows) {
      return rows.copy(
          rows.isSourceRowPresent(),
          rows.isTargetRowPresent(),
          instructions(rows.matchedInstructions()),
          instructions(rows.notMatchedInstructions()),
          instructions(rows.notMatchedBySourceInstructions()),
          rows.checkCardinality(),
          rows.output(),
          rows.child());
    }

    private Seq<MergeRows.Instruction> instructions(Seq<MergeRows.Instruction> instructions) {
      return Catalyst.seq(Catalyst.list(instructions).stream().map(this::computed).toList());
    }

    private MergeRows.Instruction computed(MergeRows.Instruction instruction) {
      if (instruction instanceof MergeRows.Keep keep) {
        return NodeCopies.with(keep, Catalyst.seq(computed(Catalyst.list(keep.output()))));
      }
      if (instruction instanceof MergeRows.Split split) {
        return split.copy(split.condition(), split.output(), Catalyst.seq(computed(Catalyst.list(split.otherOutput()))));
      }
      return instruction;
    }

    /** A row of expressions, with the values of generated columns that are not set. */
    private List<Expression> computed(List<Expression> row) {
      int operation =
          first == 0 ? RowDeltaUtils.INSERT_OPERATION() : (Integer) ((Literal) valueOf(row.get(0))).value();
      if (operation == RowDeltaUtils.DELETE_OPERATION()) {
        return row;
      }
      boolean isNew = operation == RowDeltaUtils.INSERT_OPERATION();
      for (int index : fixed) {
        Expression expression = valueOf(row.get(first + index));
        if (isNew ? !isNull(expression) : !isOld(columns.get(index).exprId(), expression)) {
          throw LanceException.invalid(
              String.format(
                  "the identity column '%s' is GENERATED ALWAYS, so its values can be neither set nor changed; leave it"
                      + " out of the statement",
                  columns.get(index).name()));
        }
      }
      List<Expression> completed = new ArrayList<>(row);
      values.forEach(
          (index, value) -> {
            Expression expression = row.get(first + index);
            if (isNew ? isNull(valueOf(expression)) : isOld(columns.get(index).exprId(), valueOf(expression))) {
              Expression computed = over(row, value);
              completed.set(first + index, expression instanceof Alias alias ? renamed(alias, computed) : computed);
            }
          });
      return completed;
    }

    /** What Spark gives an updated row in a column that the statement does not set. */
    private static boolean isOld(ExprId column, Expression value) {
      return value instanceof Attribute attribute && attribute.exprId().equals(column);
    }

    /** What Spark gives a new row there. */
    private static boolean isNull(Expression value) {
      return value instanceof Literal literal && literal.value() == null;
    }

    /** An expression over the columns of the table, over the values of a row instead. */
    private Expression over(List<Expression> row, Expression value) {
      return (Expression)
          value.transformUp(
              Catalyst.replacing(node -> place(node) < 0 ? null : valueOf(row.get(first + place(node)))));
    }

    private int place(Expression node) {
      if (node instanceof Attribute attribute) {
        for (int index = 0; index < columns.size(); index++) {
          if (columns.get(index).exprId().equals(attribute.exprId())) {
            return index;
          }
        }
      }
      return -1;
    }
  }

  private static Alias renamed(Alias alias, Expression value) {
    return new Alias(
        value, alias.name(), alias.exprId(), alias.qualifier(), alias.explicitMetadata(), alias.nonInheritableMetadataKeys());
  }

  private static Expression valueOf(Expression expression) {
    return expression instanceof Alias alias ? alias.child() : expression;
  }
}
