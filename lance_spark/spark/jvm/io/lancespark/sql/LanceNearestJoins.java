package io.lancespark.sql;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.catalog.LanceSearchTable;
import io.lancespark.catalog.LanceTable;
import io.lancespark.functions.LanceDistance;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.NearestByDistance$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.NearestByJoin;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * {@code queries JOIN table APPROX NEAREST k BY DISTANCE lance_distance(...)} of two tables becomes
 * {@code vector_search_batch}, if Python takes it. Spark compares all pairs of rows.
 */
public final class LanceNearestJoins extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(
        new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof NearestByJoin join && join.resolved();
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            LogicalPlan search = search((NearestByJoin) node);
            return search == null ? node : search;
          }
        });
  }

  /** The batch search of a join; null if it is another join. */
  private static LogicalPlan search(NearestByJoin join) {
    DataSourceV2Relation queries = tableOf(join.left());
    DataSourceV2Relation searched = tableOf(join.right());
    boolean isNearest =
        join.approx() && join.joinType() == Inner$.MODULE$ && join.direction() == NearestByDistance$.MODULE$;
    if (!isNearest || queries == null || searched == null) {
      return null;
    }
    if (!(join.rankingExpression() instanceof ApplyFunctionExpression call)
        || !call.function().name().equals(LanceDistance.NAME)) {
      return null;
    }
    List<Expression> arguments = list(call.children());
    String query = columnOf(queries, arguments);
    String vector = columnOf(searched, arguments);
    boolean hasMetric = arguments.size() > 2;
    if (query == null || vector == null || (hasMetric && !arguments.get(2).foldable())) {
      return null;
    }
    Object metric = hasMetric ? arguments.get(2).eval(null) : "l2";
    return metric == null ? null : relation(join, queries, searched, query, vector, metric.toString());
  }

  private static LogicalPlan relation(
      NearestByJoin join,
      DataSourceV2Relation queries,
      DataSourceV2Relation searched,
      String query,
      String vector,
      String metric) {
    ObjectNode request = Json.object();
    request.set("handle", ((LanceTable) searched.table()).handle());
    request.set("queries", ((LanceTable) queries.table()).handle());
    request.put("k", join.numResults());
    request.put("metric", metric);
    request.put("query_column", query);
    request.put("vector_column", vector);
    JsonNode reply = PythonChannel.call("search.join", request).body();
    if (!reply.get("found").asBoolean()) {
      return null;
    }
    DataSourceV2Relation found =
        DataSourceV2Relation.create(
            new LanceSearchTable(reply, (ObjectNode) reply.get("search")), Option.empty(), Option.empty());
    List<Attribute> wanted = list(join.output());
    List<? extends Attribute> returned = list(found.output());
    List<NamedExpression> columns = new ArrayList<>();
    for (int place = 0; place < wanted.size(); place++) {
      Attribute old = wanted.get(place);
      columns.add(
          new Alias(
              returned.get(place),
              old.name(),
              old.exprId(),
              old.qualifier(),
              Option.apply(old.metadata()),
              CollectionConverters.asScala(List.<String>of()).toSeq()));
    }
    return new Project(CollectionConverters.asScala(columns).toSeq(), found);
  }

  /** The Lance table that a side of a join is, with all its columns and no others; null if it is something else. */
  private static DataSourceV2Relation tableOf(LogicalPlan side) {
    LogicalPlan node = side;
    while (node instanceof SubqueryAlias alias) {
      node = alias.child();
    }
    if (!(node instanceof DataSourceV2Relation relation)
        || !(relation.table() instanceof LanceTable table)
        || !relation.options().isEmpty()) {
      return null;
    }
    Set<String> columns = new HashSet<>(Arrays.stream(table.columns()).map(Column::name).toList());
    List<? extends Attribute> output = list(relation.output());
    boolean isWhole =
        output.size() == columns.size() && output.stream().allMatch(item -> columns.contains(item.name()));
    return isWhole ? relation : null;
  }

  /** The name of the only argument that is a column of a table; null if there is none. */
  private static String columnOf(DataSourceV2Relation table, List<Expression> arguments) {
    for (Expression argument : arguments.subList(0, 2)) {
      if (argument instanceof Attribute column
          && list(table.output()).stream().anyMatch(item -> item.exprId().equals(column.exprId()))) {
        return column.name();
      }
    }
    return null;
  }

  private static <T> List<T> list(Seq<T> items) {
    return CollectionConverters.asJava(items);
  }
}
