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
  private static final String PARTITIONS =
      "the partitions of a Lance table come and go with their rows, so there are none to find: leave the statement out";
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
      return "Lance does not read the files of other formats in place; CONVERT TO LANCE parquet.`path` AS lance.db.t copies "
          + "the rows to a table of a Lance catalog, and takes WITH (name = value, ...), with names such as dry_run";
    } else if (tokens.take("REORG", "TABLE")) {
      return table.getAsBoolean() ? "there is no REORG TABLE; OPTIMIZE t rewrites files with deleted rows" : null;
    } else if (tokens.take("DESCRIBE", "DETAIL") || tokens.take("DESC", "DETAIL")) {
      return table.getAsBoolean()
          ? "there is no DESCRIBE DETAIL; DESCRIBE EXTENDED t shows location, size and properties, DESCRIBE HISTORY t the "
              + "versions, and SELECT * FROM t.files or t.fragments the files"
          : null;
    } else if (tokens.take("FSCK", "REPAIR", "TABLE")) {
      return table.getAsBoolean()
          ? "there is no FSCK REPAIR TABLE; python -m lance_spark verify finds what is damaged, and RESTORE t TO VERSION n "
              + "goes back to a version that is not"
          : null;
    } else if (tokens.take("MSCK", "REPAIR", "TABLE") || tokens.take("MSCK", "TABLE")) {
      return table.getAsBoolean() ? PARTITIONS : null;
    } else if (tokens.take("GENERATE")) {
      return tokens.seek("FOR", "TABLE") && table.getAsBoolean()
          ? "there is no GENERATE: other engines read Lance tables by a Lance library, not by lists of Parquet files"
          : null;
    } else if (tokens.take("COPY", "INTO")) {
      return table.getAsBoolean() ? "there is no COPY INTO; write INSERT INTO t SELECT * FROM parquet.`path`" : null;
    } else if (tokens.take("ANALYZE", "TABLE")) {
      return table.getAsBoolean() && tokens.seek("DELTA", "STATISTICS")
          ? "write ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b; for what filters skip, ALTER TABLE t CREATE INDEX "
              + "name USING zonemap (a)"
          : null;
    } else if (tokens.take("CREATE", "BLOOMFILTER", "INDEX") || tokens.take("DROP", "BLOOMFILTER", "INDEX")) {
      tokens.take("ON");
      tokens.take("TABLE");
      return table.getAsBoolean()
          ? "write ALTER TABLE t CREATE INDEX name USING bloomfilter (a), or ALTER TABLE t DROP INDEX name"
          : null;
    } else if (tokens.take("ALTER", "TABLE")) {
      return table.getAsBoolean() ? altered(tokens) : null;
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

  private static String altered(SqlTokens tokens) {
    if (tokens.take("WRITE")) {
      return "write ALTER TABLE t CLUSTER BY (a, b): each task of a write then sorts its rows, and OPTIMIZE t orders those "
          + "of all. Which task writes which partition is the property distribution: ALTER TABLE t SET "
          + "TBLPROPERTIES ('distribution' = 'hash')";
    } else if (tokens.take("SET", "IDENTIFIER", "FIELDS")) {
      return "write ALTER TABLE t SET UNENFORCED PRIMARY KEY (a, b), which cannot be changed later";
    } else if (tokens.take("DROP", "IDENTIFIER", "FIELDS")) {
      return "the primary key of a table cannot be changed once it is set; nothing enforces it";
    } else if (tokens.take("DROP", "FEATURE")) {
      return "a Lance table has no features to drop: leave the statement out";
    } else if (tokens.take("RECOVER", "PARTITIONS")) {
      return PARTITIONS;
    } else if (tokens.take("REPLACE", "TAG") || tokens.take("CREATE", "OR", "REPLACE", "TAG")) {
      return "write CALL system.update_tag(table => 't', tag => 'name', version => n) for a tag that is there, or ALTER "
          + "TABLE t CREATE TAG name AS OF VERSION n";
    } else if (tokens.take("REPLACE", "BRANCH") || tokens.take("CREATE", "OR", "REPLACE", "BRANCH")) {
      return "write ALTER TABLE t DROP BRANCH IF EXISTS name, then ALTER TABLE t CREATE BRANCH name AS OF VERSION n";
    } else if (tokens.take("CREATE", "TAG") || tokens.take("CREATE", "BRANCH")) {
      return tokens.seek("RETAIN") || tokens.seek("WITH", "SNAPSHOT", "RETENTION")
          ? "a tag or a branch stays until it is dropped: leave RETAIN and WITH SNAPSHOT RETENTION out, and write ALTER "
              + "TABLE t DROP TAG name, or DROP BRANCH name, when it is no longer needed"
          : null;
    }
    return tokens.seek("SYNC", "IDENTITY") ? "write CALL system.sync_identity(table => 't')" : null;
  }

  private static String optimize(SqlTokens tokens) {
    if (tokens.seek("CLUSTER", "BY")) {
      return "write ALTER TABLE t CLUSTER BY (a, b), and then OPTIMIZE t; or OPTIMIZE t ZORDER BY (a, b), or SORT BY (a)";
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
