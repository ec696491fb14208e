package io.lancespark.optimizer;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.read.LanceScan;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Substring;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataTypes;
import scala.PartialFunction;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Lets a scan return only the part of a binary column that a query uses, so that only this part of a blob is read.
 *
 * <p>If all uses of a column are {@code substring(column, position, length)} with constants, the scan returns the bytes
 * from the first to the last one that is used, and positions are moved accordingly.
 */
public final class LanceBinaryRanges extends Rule<LogicalPlan> {
  /** Nodes that return columns of their children as they are, and use columns in their expressions only. */
  private static final List<Class<?>> PASSING =
      List.of(Filter.class, Join.class, Sort.class, LocalLimit.class, GlobalLimit.class);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return Settings.isEnabled(conf(), Settings.BINARY_RANGES) ? narrowed(plan) : plan;
  }

  private static LogicalPlan narrowed(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformUp(
            new PartialFunction<LogicalPlan, LogicalPlan>() {
              @Override
              public boolean isDefinedAt(LogicalPlan node) {
                return isTop(node) && !new Uses(node).ranges().isEmpty();
              }

              @Override
              public LogicalPlan apply(LogicalPlan node) {
                return narrowed(node, true, new Uses(node).ranges());
              }
            });
  }

  /** Whether a node returns no column of its children unless an expression says so. */
  private static boolean isTop(LogicalPlan node) {
    return node instanceof Project || node instanceof Aggregate;
  }

  private static boolean isPassing(LogicalPlan node) {
    return PASSING.stream().anyMatch(kind -> kind.isInstance(node));
  }

  private static LogicalPlan narrowed(LogicalPlan node, boolean isTop, Map<ExprId, Range> ranges) {
    if (node instanceof DataSourceV2ScanRelation relation) {
      return narrowed(relation, ranges);
    }
    if (!isTop && !isPassing(node)) {
      return node;
    }
    LogicalPlan above =
        (LogicalPlan)
            node.mapChildren(
                new AbstractFunction1<LogicalPlan, LogicalPlan>() {
                  @Override
                  public LogicalPlan apply(LogicalPlan child) {
                    return narrowed(child, false, ranges);
                  }
                });
    return (LogicalPlan)
        above.transformExpressions(
            new PartialFunction<Expression, Expression>() {
              @Override
              public boolean isDefinedAt(Expression expression) {
                Part part = Part.of(expression);
                return part != null && ranges.containsKey(part.column());
              }

              @Override
              public Expression apply(Expression expression) {
                Part part = Part.of(expression);
                Substring use = (Substring) expression;
                int position = (int) (part.start() - ranges.get(part.column()).start()) + 1;
                return new Substring(use.str(), Literal$.MODULE$.apply(position), use.len());
              }
            });
  }

  private static LogicalPlan narrowed(DataSourceV2ScanRelation relation, Map<ExprId, Range> ranges) {
    ObjectNode asked = Json.object();
    for (AttributeReference column : list(relation.output())) {
      Range range = ranges.get(column.exprId());
      if (range != null) {
        asked.putArray(column.name()).add(range.start()).add(range.stop() - range.start());
      }
    }
    if (asked.isEmpty()) {
      return relation;
    }
    return relation.copy(
        relation.relation(),
        ((LanceScan) relation.scan()).withBinaryRanges(asked),
        relation.output(),
        relation.keyGroupedPartitioning(),
        relation.ordering(),
        relation.pushedFilters(),
        relation.mergeableScan());
  }

  private static <T> List<T> list(Seq<T> items) {
    return CollectionConverters.asJava(items);
  }

  /** Bytes [start, stop) of a value. */
  private record Range(long start, long stop) {
    Range with(Range other) {
      return new Range(Math.min(start, other.start), Math.max(stop, other.stop));
    }
  }

  /** A use of a part of a column. */
  private record Part(ExprId column, long start, long stop) {
    /** Null if an expression is something else. */
    static Part of(Expression expression) {
      if (expression instanceof Substring use
          && use.str() instanceof AttributeReference column
          && DataTypes.BinaryType.equals(column.dataType())
          && use.pos() instanceof Literal position
          && position.value() instanceof Integer first
          && use.len() instanceof Literal length
          && length.value() instanceof Integer count
          && first >= 1
          && count >= 0) {
        return new Part(column.exprId(), first - 1L, first - 1L + count);
      }
      return null;
    }
  }

  /** How a node, and those below it that pass columns on, use the binary columns of scans. */
  private static final class Uses {
    private final Set<ExprId> columns = new HashSet<>();
    private final Map<ExprId, Range> ranges = new HashMap<>();
    private final Set<ExprId> complete = new HashSet<>();

    Uses(LogicalPlan top) {
      List<LogicalPlan> nodes = new ArrayList<>();
      collect(top, true, nodes);
      if (!columns.isEmpty()) {
        nodes.forEach(node -> list(node.expressions()).forEach(this::visit));
      }
    }

    /** The bytes that are used of each column of which only parts are. */
    Map<ExprId, Range> ranges() {
      ranges.keySet().removeAll(complete);
      return ranges;
    }

    private void collect(LogicalPlan node, boolean isTop, List<LogicalPlan> nodes) {
      if (node instanceof DataSourceV2ScanRelation relation
          && relation.scan() instanceof LanceScan scan
          && scan.takesBinaryRanges()) {
        list(relation.output()).forEach(column -> columns.add(column.exprId()));
      } else if (isTop || isPassing(node)) {
        nodes.add(node);
        list(node.children()).forEach(child -> collect(child, false, nodes));
      }
    }

    private void visit(Expression expression) {
      Part part = Part.of(expression);
      if (part != null && columns.contains(part.column())) {
        ranges.merge(part.column(), new Range(part.start(), part.stop()), Range::with);
      } else if (isNullCheck(expression)) {
        return; // A part of a value is null where the value is.
      } else if (expression instanceof AttributeReference column) {
        complete.add(column.exprId());
      } else {
        list(expression.children()).forEach(this::visit);
      }
    }

    private static boolean isNullCheck(Expression expression) {
      return (expression instanceof IsNotNull || expression instanceof IsNull)
          && list(expression.children()).get(0) instanceof AttributeReference;
    }
  }
}
