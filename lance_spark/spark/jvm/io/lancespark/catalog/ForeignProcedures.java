package io.lancespark.catalog;

import io.lancespark.compat.SparkMinor;
import java.util.Locale;
import java.util.Map;

/** The procedures of other catalogs, and what to call or write instead. */
public final class ForeignProcedures {
  private static final String OPTIMIZE = "write CALL system.optimize(table => 't')";
  private static final String RESTORE = "write CALL system.restore(table => 't', version => n), which makes a new version";
  private static final String BRANCHES =
      "there is no equivalent: read the branch, as t.branch_name, and INSERT or MERGE its rows";
  private static final String COPY = "copy the rows: CREATE TABLE t AS SELECT * FROM source";

  private static final Map<String, String> INSTEAD = Map.ofEntries(
      Map.entry("rewrite_data_files", OPTIMIZE + "; for an order, INSERT OVERWRITE t SELECT * FROM t ORDER BY a, b"),
      Map.entry("rewrite_position_delete_files", OPTIMIZE + ", which also removes deleted rows"),
      Map.entry("rewrite_manifests", "leave it out: each version has one manifest"),
      Map.entry("rewrite_table_path", "copy the folder of the table, whose paths are relative"),
      Map.entry("expire_snapshots", "write CALL system.vacuum(table => 't', days => 7)"),
      Map.entry("remove_orphan_files", "write CALL system.remove_orphans(table => 't')"),
      Map.entry("rollback_to_snapshot", RESTORE),
      Map.entry("set_current_snapshot", RESTORE),
      Map.entry("rollback_to_timestamp",
          "CALL system.history(table => 't') shows which version was the newest then; " + RESTORE),
      Map.entry("ancestors_of", "write CALL system.history(table => 't')"),
      Map.entry("cherrypick_snapshot", BRANCHES),
      Map.entry("fast_forward", BRANCHES),
      Map.entry("publish_changes", BRANCHES),
      Map.entry("create_changelog_view", "write SELECT * FROM lance_changes('t', first, last)"),
      Map.entry("compute_table_stats", "write CALL system.analyze(table => 't')"),
      Map.entry("compute_partition_stats", "leave it out: the numbers of rows and bytes are always known"),
      Map.entry("snapshot", COPY),
      Map.entry("migrate", COPY),
      Map.entry("add_files", "copy the rows: INSERT INTO t SELECT * FROM parquet.`path`"));

  private ForeignProcedures() {}

  /** The error text for a call of a procedure that a Lance catalog does not have. */
  public static String missing(String catalog, String name) {
    String list = SparkMinor.NAME.equals("4.0")
        ? "the reference of procedures"
        : "SHOW PROCEDURES IN " + catalog + "." + LanceProcedure.NAMESPACE;
    String listed = list + " lists those that are there";
    return "there is no procedure " + name + "; " + INSTEAD.getOrDefault(name.toLowerCase(Locale.ROOT), listed);
  }
}
