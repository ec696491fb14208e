package io.lancespark.table;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Options of relations, of which one is not of users: the mark of a MERGE's target. */
public final class RelationOptions {
  /** The option that marks the target of a MERGE. */
  public static final String MERGE = "__lance_merge__";

  private RelationOptions() {}

  /** The options of users. */
  public static ObjectNode of(CaseInsensitiveStringMap options) {
    return of(options.asCaseSensitiveMap());
  }

  public static ObjectNode of(Map<String, String> options) {
    ObjectNode described = Json.map(options);
    described.remove(MERGE);
    return described;
  }
}
