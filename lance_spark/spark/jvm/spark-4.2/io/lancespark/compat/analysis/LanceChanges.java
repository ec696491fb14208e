package io.lancespark.compat.analysis;

import io.lancespark.compat.Sessions;
import io.lancespark.sql.LanceStatements;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The changes that {@code lance_changes} returns: those of Spark's CHANGES clause. */
final class LanceChanges {
  private LanceChanges() {}

  /**
   * The changes of a range of versions.
   *
   * @param last version; null for the newest one
   */
  static LogicalPlan between(String table, String first, String last) throws ParseException, NoSuchTableException {
    String name = LanceStatements.quoted(Sessions.nameParts(table));
    String end = last == null ? "" : " TO VERSION " + last;
    return Sessions.parsed("SELECT * FROM " + name + " CHANGES FROM VERSION " + first + end);
  }
}
