package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.python.Json;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;

/** How rows come to the tasks of a write, as Python has decided it: hash, range or none. */
public record LanceLayout(Transform[] clustering, String kind) {
  public static LanceLayout of(JsonNode plan) {
    return new LanceLayout(Json.transforms(plan.path("clustering")), plan.get("distribution").asText());
  }

  /** Rows stay where they are. */
  public static LanceLayout none() {
    return new LanceLayout(new Transform[0], "none");
  }

  public Distribution distribution() {
    if (clustering.length == 0) {
      return Distributions.unspecified();
    }
    return switch (kind) {
      case "hash" -> Distributions.clustered(clustering);
      case "range" -> Distributions.ordered(ordering());
      default -> Distributions.unspecified();
    };
  }

  public SortOrder[] ordering() {
    SortOrder[] orders = new SortOrder[clustering.length];
    for (int index = 0; index < orders.length; index++) {
      orders[index] = Expressions.sort(clustering[index], SortDirection.ASCENDING);
    }
    return orders;
  }
}
