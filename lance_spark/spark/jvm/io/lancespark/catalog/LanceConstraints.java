package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import java.util.Locale;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** Spark's table constraints from and to JSON. */
public final class LanceConstraints {
  private LanceConstraints() {}

  public static ArrayNode describe(Constraint[] constraints) {
    ArrayNode described = Json.array();
    for (Constraint constraint : constraints) {
      described.add(describe(constraint));
    }
    return described;
  }

  /** Name, condition and kind; a constraint that is not a CHECK has no condition. */
  static ObjectNode describe(Constraint constraint) {
    ObjectNode node = Json.object();
    node.put("name", constraint.name());
    node.put("kind", constraint.getClass().getSimpleName().toUpperCase(Locale.ROOT));
    node.put("enforced", constraint.enforced());
    node.put("condition", constraint instanceof Check check ? check.predicateSql() : null);
    return node;
  }

  /** The CHECK constraints of a table that Python has described. */
  static Constraint[] of(JsonNode described) {
    Constraint[] constraints = new Constraint[described.size()];
    for (int index = 0; index < constraints.length; index++) {
      JsonNode node = described.get(index);
      constraints[index] =
          Constraint.check(node.get("name").asText())
              .predicateSql(node.get("condition").asText())
              .enforced(true)
              .validationStatus(Constraint.ValidationStatus.VALID)
              .build();
    }
    return constraints;
  }
}
