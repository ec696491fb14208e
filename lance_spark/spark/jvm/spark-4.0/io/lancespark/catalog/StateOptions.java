package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.python.LanceException;
import java.util.List;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Options that choose the state of a table by name. Spark passes them to catalogs from 4.3 on; before, a rule of the
 * session extension does. A session that has the connector by {@code install} lacks the rule.
 */
final class StateOptions {
  private static final List<String> VERSIONS = List.of("version", "tag", "timestamp");

  private StateOptions() {}

  /** Refuses options with which the table was not loaded, unless it was loaded by its path, which takes options. */
  static void check(JsonNode handle, CaseInsensitiveStringMap options) {
    if (options.containsKey("path")) {
      return;
    }
    String branch = options.get("branch");
    if (branch != null && !branch.equalsIgnoreCase(handle.path("branch").asText("main"))) {
      throw LanceException.invalid(
          "this session does not pass the option branch to a table by name; add branch_" + branch
              + " to the name, as in db.t.branch_" + branch);
    }
    for (String name : VERSIONS) {
      if (options.containsKey(name)) {
        throw LanceException.invalid(
            "this session does not pass the option " + name
                + " to a table by name; use VERSION AS OF or TIMESTAMP AS OF");
      }
    }
  }
}
