package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.Scans;
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

/**
 * Lets a scan return only the parts of a column's values that a query uses.
 *
 * <p>A column is narrowed if all its uses are parts, or tests for null.
 *
 * @param <P> describes the parts of a column
 */
abstract class LanceValueParts<P> extends Rule<LogicalPlan> {
  /** Nodes that return columns of their children as they are, and use columns in their expressions only. */
  private static final List<Class<?>> PASSING =
      List.of(Filter.class, Join.class, Sort.class, LocalLimit.class, GlobalLimit.class);

  /** A use of a part of a column. */
  record Use<P>(ExprId column, P part) {}

  /** The setting that disables the rule. */
  abstract String setting();

  /** The part that an expression uses; null if it is something else. */
  abstract Use<P> use(Expression expression);

  /** What has both parts. */
  abstract P union(P one, P other);

  /** The expression over a column that has {@code parts} only. */
  abstract Expression over(Expression use, P parts);

  /** Whether the columns of a scan can be narrowed. */
  abstract boolean takes(LanceScan scan);

  /** The scan, with parts of some columns, by name. */
  abstract LanceScan narrowed(LanceScan scan, Map<String, P> parts);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return Settings.isEnabled(setting()) ? narrowed(plan) : plan;
  }

  private LogicalPlan narrowed(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformUp(
            Catalyst.replacing(
                node -> {
                  Map<ExprId, P> parts = isTop(node) ? new Uses(node).kept() : Map.of();
                  return parts.isEmpty() ? null : narrowed(node, true, parts);
                }));
  }

  /** Whether a node returns no column of its children unless an expression says so. */
  private static boolean isTop(LogicalPlan node) {
    return node instanceof Project || node instanceof Aggregate;
  }

  private static boolean isPassing(LogicalPlan node) {
    return PASSING.stream().anyMatch(kind -> kind.isInstance(node));
  }

  private LogicalPlan narrowed(LogicalPlan node, boolean isTop, Map<ExprId, P> parts) {
    if (node instanceof DataSourceV2ScanRelation relation) {
      return narrowed(relation, parts);
    }
    if (!isTop && !isPassing(node)) {
      return node;
    }
    LogicalPlan above = (LogicalPlan) node.mapChildren(child -> narrowed((LogicalPlan) child, false, parts));
    return (LogicalPlan)
        above.transformExpressions(
            Catalyst.replacing(
                expression -> {
                  Use<P> use = use(expression);
                  return use != null && parts.containsKey(use.column()) ? over(expression, parts.get(use.column())) : null;
                }));
  }

  private LogicalPlan narrowed(DataSourceV2ScanRelation relation, Map<ExprId, P> parts) {
    Map<String, P> byName = new HashMap<>();
    for (AttributeReference column : Catalyst.list(relation.output())) {
      P part = parts.get(column.exprId());
      if (part != null) {
        byName.put(column.name(), part);
      }
    }
    if (byName.isEmpty()) {
      return relation;
    }
    return Scans.with(relation, narrowed((LanceScan) relation.scan(), byName));
  }

  /** How a node, and those below it that pass columns on, use the columns of scans. */
  private final class Uses {
    private final Set<ExprId> columns = new HashSet<>();
    private final Map<ExprId, P> parts = new HashMap<>();
    private final Set<ExprId> complete = new HashSet<>();

    Uses(LogicalPlan top) {
      List<LogicalPlan> nodes = new ArrayList<>();
      collect(top, true, nodes);
      if (!columns.isEmpty()) {
        nodes.forEach(node -> Catalyst.list(node.expressions()).forEach(this::visit));
      }
    }

    /** What is used of each column of which only parts are. */
    Map<ExprId, P> kept() {
      parts.keySet().removeAll(complete);
      return parts;
    }

    private void collect(LogicalPlan node, boolean isTop, List<LogicalPlan> nodes) {
      if (node instanceof DataSourceV2ScanRelation relation
          && relation.scan() instanceof LanceScan scan
          && takes(scan)) {
        Catalyst.list(relation.output()).forEach(column -> columns.add(column.exprId()));
      } else if (isTop || isPassing(node)) {
        nodes.add(node);
        Catalyst.list(node.children()).forEach(child -> collect(child, false, nodes));
      }
    }

    private void visit(Expression expression) {
      Use<P> use = use(expression);
      if (use != null && columns.contains(use.column())) {
        parts.merge(use.column(), use.part(), LanceValueParts.this::union);
      } else if (isNullCheck(expression)) {
        return; // A part of a value is null where the value is.
      } else if (expression instanceof AttributeReference column) {
        complete.add(column.exprId());
      } else {
        Catalyst.list(expression.children()).forEach(this::visit);
      }
    }

    private static boolean isNullCheck(Expression expression) {
      return (expression instanceof IsNotNull || expression instanceof IsNull)
          && Catalyst.list(expression.children()).get(0) instanceof AttributeReference;
    }
  }
}
