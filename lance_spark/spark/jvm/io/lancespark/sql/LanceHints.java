package io.lancespark.sql;

import java.util.List;
import java.util.function.BooleanSupplier;

/**
 * Errors for statements that other table formats have: each says what to write for a Lance table. Spark's parser would
 * only report a syntax error.
 */
final class LanceHints {
  private static final String OPTIMIZE =
      "write OPTIMIZE t, or OPTIMIZE t WITH (name = value, ...), with names such as target_rows_per_fragment";
  private static final String VACUUM =
      "write VACUUM t, or VACUUM t WITH (name = value, ...), with names such as days, keep_versions and dry_run";
  private static final String RESTORE = "write RESTORE t TO VERSION n or RESTORE t TO TAG name";

  private LanceHints() {}

  /**
   * What to write instead of a statement about a table in a Lance catalog that is not understood; null if Spark may know
   * it.
   *
   * @param tokens those of the statement, from the first one
   * @param table consumes the name of a table, and returns whether it is in a Lance catalog
   */
  static String of(SqlTokens tokens, BooleanSupplier table) {
    if (tokens.take("OPTIMIZE")) {
      return table.getAsBoolean() ? optimize(tokens) : null;
    } else if (tokens.take("VACUUM")) {
      return table.getAsBoolean() ? vacuum(tokens) : null;
    } else if (tokens.take("RESTORE")) {
      tokens.take("TABLE");
      return table.getAsBoolean() ? restore(tokens) : null;
    } else if (tokens.take("CONVERT", "TO", "LANCE")) {
      return "there is no CONVERT TO LANCE, because Lance does not read the files of other formats in place; copy the "
          + "rows: CREATE TABLE lance.db.t AS SELECT * FROM parquet.`path`";
    } else if (tokens.take("REORG", "TABLE")) {
      return table.getAsBoolean() ? "there is no REORG TABLE; OPTIMIZE t rewrites files with deleted rows" : null;
    } else if (tokens.take("UNDROP")) {
      tokens.take("TABLE");
      return table.getAsBoolean()
          ? "there is no UNDROP; CALL system.dropped_tables() shows where the files of dropped tables are, and CALL "
              + "system.register_table(table => 'db.t', location => '...') gives one of them a name again"
          : null;
    }
    return created(tokens, table);
  }

  /** For CREATE TABLE t SHALLOW CLONE and DEEP CLONE. */
  private static String created(SqlTokens tokens, BooleanSupplier table) {
    boolean isClone = tokens.seek("CLONE");
    tokens.restart();
    if (!isClone || !tokens.take("CREATE")) {
      return null;
    }
    tokens.take("OR", "REPLACE");
    if (!tokens.take("TABLE")) {
      return null;
    }
    tokens.take("IF", "NOT", "EXISTS");
    if (!table.getAsBoolean()) {
      return null;
    } else if (tokens.take("DEEP", "CLONE")) {
      return "there is no DEEP CLONE; CREATE TABLE t AS SELECT * FROM other copies the rows";
    } else if (tokens.take("SHALLOW", "CLONE") || tokens.take("CLONE")) {
      return "there is no CLONE in SQL; a branch shares files too: ALTER TABLE t CREATE BRANCH name. In Python, "
          + "lance_spark.open(path).shallow_clone(new_path) makes a table, and CALL system.register_table names it";
    }
    return null;
  }

  private static String optimize(SqlTokens tokens) {
    if (tokens.seek("ZORDER", "BY") || tokens.seek("CLUSTER", "BY") || tokens.seek("SORT", "BY")) {
      return "OPTIMIZE joins small files and keeps the order of their rows. To sort a table by columns, write INSERT "
          + "OVERWRITE t SELECT * FROM t ORDER BY a, b; zone maps then skip what a filter does not match: ALTER TABLE "
          + "t CREATE INDEX name USING zonemap (a)";
    }
    if (tokens.take("WHERE")) {
      return "OPTIMIZE takes no WHERE: it leaves files alone that are large enough; " + OPTIMIZE;
    }
    return OPTIMIZE;
  }

  private static String vacuum(SqlTokens tokens) {
    String days = null;
    if (tokens.take("RETAIN")) {
      String hours = tokens.number();
      days = hours == null ? null : days(hours);
    }
    boolean isDry = tokens.seek("DRY", "RUN");
    if (days == null && !isDry) {
      return VACUUM;
    }
    List<String> options = days == null
        ? List.of("dry_run = true")
        : isDry ? List.of("days = " + days, "dry_run = true") : List.of("days = " + days);
    return "write VACUUM t WITH (" + String.join(", ", options) + ")";
  }

  /** A number of hours in days, as SQL writes it. */
  private static String days(String hours) {
    double days = Double.parseDouble(hours) / 24;
    return days == Math.rint(days) ? Long.toString((long) days) : Double.toString(days);
  }

  private static String restore(SqlTokens tokens) {
    return tokens.seek("TIMESTAMP")
        ? "RESTORE takes no time: DESCRIBE HISTORY t shows which version was the newest then; " + RESTORE
        : RESTORE;
  }
}
