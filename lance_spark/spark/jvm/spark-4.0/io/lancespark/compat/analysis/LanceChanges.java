package io.lancespark.compat.analysis;

import io.lancespark.compat.ChangesRange;
import io.lancespark.compat.Relations;
import io.lancespark.compat.SparkCatalog;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The changes that {@code lance_changes} returns: a relation, because Spark has no CHANGES clause before 4.2. */
final class LanceChanges {
  private LanceChanges() {}

  /**
   * The changes of a range of versions.
   *
   * @param last version; null for the newest one
   */
  static LogicalPlan between(String table, String first, String last) throws ParseException, NoSuchTableException {
    NamedTable named = NamedTable.of(table);
    ChangesRange range = new ChangesRange(first, last, null, null, true, true, "NONE", false);
    return Relations.unnamed(((SparkCatalog) named.catalog()).changes(named.identifier(), range, Map.of()));
  }
}
