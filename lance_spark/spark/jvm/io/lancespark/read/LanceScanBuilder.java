package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.SessionConf;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownOffset;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Collects what Spark wants of one scan; Python says what it takes. */
public final class LanceScanBuilder
    implements SupportsPushDownV2Filters,
        SupportsPushDownRequiredColumns,
        SupportsPushDownLimit,
        SupportsPushDownOffset,
        SupportsPushDownTopN,
        SupportsPushDownAggregates {
  /** Answers of Python about a predicate. */
  private static final int EXACT = 2;

  private static final int CHECK_AGAIN = 1;

  private final ObjectNode request = Json.object();
  private final LanceStreamScan.Streams streams;
  private StructType columns;
  private Predicate[] pushed = new Predicate[0];
  private Aggregation considered;
  private LanceAggregateScan answer;
  private LanceScan inTasks;
  private boolean aggregates;
  private Collection<JsonNode> built = new ArrayList<>();
  private final Set<JsonNode> averaged = new HashSet<>();

  /**
   * @param options of the relation
   * @param streams makes the stream of some columns; null if the rows cannot be read as a stream
   */
  public LanceScanBuilder(
      JsonNode handle, StructType schema, ObjectNode options, LanceStreamScan.Streams streams) {
    this.columns = schema;
    this.streams = streams;
    request.set("handle", handle);
    request.set("options", options);
  }

  /** Says that the rows are read to be changed; {@code built} gets the request of each scan that is made. */
  public LanceScanBuilder forChanges(Collection<JsonNode> built) {
    request.put("for_changes", true);
    this.built = built;
    return this;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    ObjectNode question = Json.object();
    question.set("handle", request.get("handle"));
    question.set("options", request.get("options"));
    question.set("predicates", Json.expressions(predicates));
    JsonNode reply = PythonChannel.callOncePerQuery("scan.push", question).body();
    JsonNode answers = reply.get("answers");
    List<Predicate> taken = new ArrayList<>();
    List<Predicate> left = new ArrayList<>();
    for (int index = 0; index < predicates.length; index++) {
      int answer = answers.get(index).asInt();
      if (answer >= CHECK_AGAIN) {
        taken.add(predicates[index]);
      }
      if (answer < EXACT) {
        left.add(predicates[index]);
      }
    }
    pushed = taken.toArray(new Predicate[0]);
    request.set("filter", reply.get("filter"));
    return left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed;
  }

  @Override
  public void pruneColumns(StructType required) {
    columns = required;
  }

  @Override
  public boolean pushLimit(int limit) {
    request.put("limit", limit);
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    // Tasks stop at the limit each; together they may have more rows.
    return true;
  }

  @Override
  public boolean pushOffset(int offset) {
    if (pushed.length > 0) {
      return false; // How many rows of a fragment a filter keeps is not known.
    }
    ObjectNode question = request.deepCopy();
    question.put("offset", offset);
    if (!PythonChannel.call("scan.offset", question).body().get("taken").asBoolean()) {
      return false;
    }
    request.put("offset", offset);
    return true;
  }

  @Override
  public boolean pushTopN(SortOrder[] orders, int limit) {
    // Python decides in the plan whether tasks return their first rows only. Spark sorts and limits in any case.
    ObjectNode topN = request.putObject("top_n");
    topN.put("limit", limit);
    ArrayNode keys = topN.putArray("orders");
    for (SortOrder order : orders) {
      ObjectNode key = keys.addObject();
      key.set("expression", Json.expression(order.expression()));
      key.put("descending", order.direction() == SortDirection.DESCENDING);
      key.put("nulls_first", order.nullOrdering() == NullOrdering.NULLS_FIRST);
    }
    return true;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    consider(aggregation);
    return answer != null;
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    consider(aggregation);
    aggregates = answer != null || inTasks != null;
    return aggregates;
  }

  /** Asks Python once, though Spark asks several times. */
  private void consider(Aggregation aggregation) {
    if (aggregation.equals(considered)) {
      return;
    }
    considered = aggregation;
    answer = null;
    inTasks = null;
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    remember(functions);
    ObjectNode question = Json.object();
    question.set("scan", request.deepCopy());
    ObjectNode clusters = question.putObject("clusters");
    clusters.put("keys", SessionConf.usesPartitionKeys());
    clusters.put("some_keys", SessionConf.usesSomePartitionKeys());
    ArrayNode groups = question.putArray("group_by");
    for (Expression key : aggregation.groupByExpressions()) {
      if (!(key instanceof NamedReference reference) || reference.fieldNames().length != 1) {
        return;
      }
      groups.add(reference.fieldNames()[0]);
    }
    ArrayNode described = question.putArray("aggregates");
    StructType schema = new StructType();
    for (AggregateFunc function : functions) {
      ObjectNode node = described(function);
      if (node == null) {
        return;
      }
      described.add(node);
      schema = schema.add(function.describe(), DataTypes.LongType);
    }
    PythonChannel.Reply planned = PythonChannel.callOncePerQuery("scan.aggregate", question);
    JsonNode reply = planned.body();
    if (!reply.get("values").isNull()) {
      answer = new LanceAggregateScan(request.get("handle"), schema, reply.get("values"));
    } else if (!reply.get("columns").isNull()) {
      StructType returned = (StructType) Json.type(reply.get("columns"));
      PythonChannel.Reply plan = new PythonChannel.Reply(reply.get("plan"), planned.attachments());
      inTasks = new LanceScan(request.deepCopy(), returned, question, plan);
    }
  }

  /** Spark asks for an AVG first, and then for SUM and COUNT of the same. */
  private void remember(AggregateFunc[] functions) {
    for (AggregateFunc function : functions) {
      if (function instanceof Avg avg) {
        averaged.add(Json.expression(avg.column()));
      }
    }
  }

  /** A function as Python knows it; null if it does not. */
  private ObjectNode described(AggregateFunc function) {
    ObjectNode node = Json.object();
    if (function instanceof CountStar) {
      return node.put("kind", "count_star");
    } else if (function instanceof Count count) {
      node.set("of", Json.expression(count.column()));
      return node.put("kind", "count").put("distinct", count.isDistinct());
    } else if (function instanceof Min min) {
      node.set("of", Json.expression(min.column()));
      return node.put("kind", "min");
    } else if (function instanceof Max max) {
      node.set("of", Json.expression(max.column()));
      return node.put("kind", "max");
    } else if (function instanceof Sum sum) {
      ObjectNode of = Json.expression(sum.column());
      node.set("of", of);
      return node.put("kind", "sum").put("distinct", sum.isDistinct()).put("averaged", averaged.contains(of));
    }
    return null;
  }

  @Override
  public Scan build() {
    built.add(request.deepCopy());
    if (aggregates && answer != null) {
      return answer;
    }
    if (aggregates && inTasks != null) {
      return inTasks;
    }
    return new LanceScan(request.deepCopy(), columns, streams);
  }
}
