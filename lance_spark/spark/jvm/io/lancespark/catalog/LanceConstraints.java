package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Constraints;
import io.lancespark.python.Json;
import java.util.ArrayList;
import java.util.List;

/** Table constraints from and to JSON. */
public final class LanceConstraints {
  private LanceConstraints() {}

  public static ArrayNode describe(List<Constraints.Declared> constraints) {
    ArrayNode described = Json.array();
    constraints.forEach(constraint -> described.add(describe(constraint)));
    return described;
  }

  /** Name, condition and kind; a constraint that is not a CHECK has no condition. */
  static ObjectNode describe(Constraints.Declared constraint) {
    ObjectNode node = Json.object();
    node.put("name", constraint.name());
    node.put("kind", constraint.kind());
    node.put("enforced", constraint.isEnforced());
    node.put("condition", constraint.condition());
    return node;
  }

  /** The CHECK constraints of a table that Python has described. */
  static List<Constraints.Declared> checks(JsonNode described) {
    List<Constraints.Declared> checks = new ArrayList<>();
    for (JsonNode node : described) {
      checks.add(new Constraints.Declared(node.get("name").asText(), "CHECK", true, node.get("condition").asText()));
    }
    return checks;
  }
}
