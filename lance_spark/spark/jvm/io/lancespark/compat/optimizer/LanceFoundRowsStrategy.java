package io.lancespark.compat.optimizer;

import io.lancespark.compat.Catalyst;
import io.lancespark.read.LancePlannedScan;
import io.lancespark.read.LanceScan;
import io.lancespark.read.LanceStreamScan;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Limit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReturnAnswer;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.immutable.Seq;

/**
 * Plans scans whose rows the planner has found already as rows on the driver: searches everywhere, scans of tables
 * where they are the whole query, so that no job is needed. Inside a query Spark's own node for scans lets equal
 * exchanges be shared and takes filters at run time.
 */
public final class LanceFoundRowsStrategy extends SparkStrategy {
  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    return Catalyst.seq((plan instanceof ReturnAnswer answer ? result(answer.child()) : search(plan)).stream().toList());
  }

  /** The rows of a whole query. */
  private static Optional<SparkPlan> result(LogicalPlan plan) {
    if (!(plan instanceof GlobalLimit limit)) {
      return scan(plan);
    }
    Option<Tuple2<Expression, LogicalPlan>> limited = Limit.unapply(limit);
    return limited.isDefined()
            && limited.get()._1() instanceof Literal literal
            && literal.value() instanceof Integer count
        ? scan(limited.get()._2()).map(rows -> new CollectLimitExec(count, rows, 0))
        : Optional.empty();
  }

  /** The rows of a table, if the query has columns and nothing else. */
  private static Optional<SparkPlan> scan(LogicalPlan plan) {
    Option<Tuple3<Seq<NamedExpression>, Seq<Expression>, LogicalPlan>> operation = PhysicalOperation.unapply(plan);
    if (operation.isEmpty()
        || !(operation.get()._3() instanceof DataSourceV2ScanRelation relation)
        || !(relation.scan() instanceof LanceScan scan)
        || !Settings.isEnabled(Settings.LOCAL_RESULTS)
        || !scan.isInline()) {
      return Optional.empty();
    }
    List<NamedExpression> columns = Catalyst.list(operation.get()._1());
    return operation.get()._2().isEmpty() && areColumns(columns)
        ? Optional.of(rows(scan, relation, columns))
        : Optional.empty();
  }

  private static Optional<SparkPlan> search(LogicalPlan plan) {
    Option<Tuple3<Seq<NamedExpression>, Seq<Expression>, LogicalPlan>> operation = PhysicalOperation.unapply(plan);
    return operation.isDefined()
            && operation.get()._3() instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof LancePlannedScan scan
            && scan.isInline()
        ? Optional.of(planned(operation.get(), scan, relation))
        : Optional.empty();
  }

  private static SparkPlan planned(
      Tuple3<Seq<NamedExpression>, Seq<Expression>, LogicalPlan> operation,
      LanceStreamScan scan,
      DataSourceV2ScanRelation relation) {
    List<NamedExpression> columns = Catalyst.list(operation._1());
    List<Expression> conditions = Catalyst.list(operation._2());
    if (conditions.isEmpty() && areColumns(columns)) {
      return rows(scan, relation, columns);
    }
    SparkPlan rows = rows(scan, relation, List.copyOf(Catalyst.list(relation.output())));
    SparkPlan filtered = conditions.stream().reduce(And::new).<SparkPlan>map(all -> new FilterExec(all, rows)).orElse(rows);
    return new ProjectExec(operation._1(), filtered);
  }

  private static SparkPlan rows(
      LanceStreamScan scan, DataSourceV2ScanRelation relation, List<NamedExpression> columns) {
    List<Attribute> scanned = List.copyOf(Catalyst.list(relation.output()));
    return LanceFoundRows.of(scan, columns, scanned, order(relation, columns));
  }

  /** The order of the scan, as far as its columns are there. */
  private static Seq<SortOrder> order(DataSourceV2ScanRelation relation, List<NamedExpression> columns) {
    List<SortOrder> order =
        relation.ordering().isEmpty() ? List.of() : Catalyst.list(relation.ordering().get());
    return Catalyst.seq(order.stream().takeWhile(item -> hasColumn(columns, item.child())).toList());
  }

  private static boolean hasColumn(List<NamedExpression> columns, Expression expression) {
    return columns.stream().anyMatch(column -> expression.semanticEquals((Expression) column));
  }

  private static boolean areColumns(List<NamedExpression> expressions) {
    return expressions.stream()
        .map(column -> column instanceof Alias alias ? alias.child() : column)
        .allMatch(Attribute.class::isInstance);
  }
}
