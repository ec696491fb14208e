package io.lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
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
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Collects what Spark wants of one scan; Python says what it takes. */
final class LanceScanBuilder
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
  private StructType columns;
  private Predicate[] pushed = new Predicate[0];
  private Aggregation considered;
  private LanceAggregateScan answer;
  private ObjectNode inTasks;
  private StructType returned;

  LanceScanBuilder(JsonNode handle, StructType schema, CaseInsensitiveStringMap options) {
    this.columns = schema;
    request.set("handle", handle);
    request.set("options", Json.map(options.asCaseSensitiveMap()));
    request.putArray("predicates");
  }

  /** Says that the rows are read to be changed. */
  LanceScanBuilder forChanges() {
    request.put("for_changes", true);
    return this;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    ObjectNode asked = request.deepCopy();
    asked.set("predicates", Json.expressions(predicates));
    JsonNode answers = LancePy.call("scan.push", asked).body().get("answers");
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
    request.set("predicates", Json.expressions(pushed));
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
    // Every task stops at the limit; together they may have more rows.
    return true;
  }

  @Override
  public boolean pushOffset(int offset) {
    ObjectNode asked = request.deepCopy();
    asked.put("offset", offset);
    if (!LancePy.call("scan.offset", asked).body().get("taken").asBoolean()) {
      return false;
    }
    request.put("offset", offset);
    return true;
  }

  @Override
  public boolean pushTopN(SortOrder[] orders, int limit) {
    ObjectNode asked = request.deepCopy();
    ObjectNode topN = asked.putObject("top_n");
    topN.put("limit", limit);
    ArrayNode keys = topN.putArray("orders");
    for (SortOrder order : orders) {
      ObjectNode key = keys.addObject();
      key.set("expression", Json.expression(order.expression()));
      key.put("descending", order.direction() == SortDirection.DESCENDING);
      key.put("nulls_first", order.nullOrdering() == NullOrdering.NULLS_FIRST);
    }
    if (!LancePy.call("scan.top_n", asked).body().get("taken").asBoolean()) {
      return false;
    }
    request.set("top_n", topN);
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
    return answer != null || inTasks != null;
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
    if (aggregation.groupByExpressions().length > 0) {
      return;
    }
    ObjectNode asked = Json.object();
    asked.set("scan", request);
    ArrayNode described = asked.putArray("aggregates");
    StructType schema = new StructType();
    for (AggregateFunc function : functions) {
      ObjectNode node = described.addObject();
      if (function instanceof CountStar) {
        node.put("kind", "count_star");
      } else if (function instanceof Count count && count.column() instanceof NamedReference reference) {
        node.put("kind", "count");
        node.set("column", Json.strings(reference.fieldNames()));
        node.put("distinct", count.isDistinct());
      } else if (function instanceof Min min && min.column() instanceof NamedReference reference) {
        node.put("kind", "min");
        node.set("column", Json.strings(reference.fieldNames()));
      } else if (function instanceof Max max && max.column() instanceof NamedReference reference) {
        node.put("kind", "max");
        node.set("column", Json.strings(reference.fieldNames()));
      } else {
        return;
      }
      schema = schema.add(function.describe(), DataTypes.LongType);
    }
    JsonNode reply = LancePy.call("scan.aggregate", asked).body();
    if (!reply.get("values").isNull()) {
      answer = new LanceAggregateScan(request.get("handle"), schema, reply.get("values"));
    } else if (!reply.get("columns").isNull()) {
      returned = (StructType) Json.type(reply.get("columns"));
      inTasks = request.deepCopy();
      inTasks.set("aggregates", described);
    }
  }

  @Override
  public Scan build() {
    if (answer != null) {
      return answer;
    }
    if (inTasks != null) {
      return new LanceScan(inTasks, returned);
    }
    return new LanceScan(request.deepCopy(), columns);
  }
}
