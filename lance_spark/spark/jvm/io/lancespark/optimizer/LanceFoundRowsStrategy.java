package io.lancespark.optimizer;

import io.lancespark.read.LancePlannedScan;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Plans scans whose rows the planner has found already as rows on the driver. */
public final class LanceFoundRowsStrategy extends SparkStrategy {
  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    Option<Tuple3<Seq<NamedExpression>, Seq<Expression>, LogicalPlan>> found = PhysicalOperation.unapply(plan);
    boolean isKnown =
        found.isDefined()
            && found.get()._3() instanceof DataSourceV2ScanRelation relation
            && relation.scan() instanceof LancePlannedScan scan
            && scan.isInline();
    return seq(isKnown ? List.of(planned(found.get())) : List.of());
  }

  private static SparkPlan planned(Tuple3<Seq<NamedExpression>, Seq<Expression>, LogicalPlan> found) {
    DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) found._3();
    LancePlannedScan scan = (LancePlannedScan) relation.scan();
    List<NamedExpression> columns = CollectionConverters.asJava(found._1());
    List<Expression> conditions = CollectionConverters.asJava(found._2());
    List<Attribute> scanned = List.copyOf(CollectionConverters.asJava(relation.output()));
    if (conditions.isEmpty() && columns.stream().allMatch(LanceFoundRowsStrategy::isColumn)) {
      return LanceFoundRows.of(scan, columns, scanned, order(relation, columns));
    }
    SparkPlan rows = LanceFoundRows.of(scan, List.copyOf(scanned), scanned, order(relation, List.copyOf(scanned)));
    SparkPlan kept = conditions.stream().reduce(And::new).<SparkPlan>map(all -> new FilterExec(all, rows)).orElse(rows);
    return new ProjectExec(found._1(), kept);
  }

  /** The order of the scan, as far as its columns are there. */
  private static Seq<SortOrder> order(DataSourceV2ScanRelation relation, List<NamedExpression> columns) {
    List<SortOrder> known =
        relation.ordering().isEmpty() ? List.of() : CollectionConverters.asJava(relation.ordering().get());
    return seq(known.stream().takeWhile(item -> hasColumn(columns, item.child())).toList());
  }

  private static boolean hasColumn(List<NamedExpression> columns, Expression wanted) {
    return columns.stream().anyMatch(column -> wanted.semanticEquals((Expression) column));
  }

  private static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toSeq();
  }

  private static boolean isColumn(NamedExpression column) {
    return column instanceof Attribute || (column instanceof Alias alias && alias.child() instanceof Attribute);
  }
}
