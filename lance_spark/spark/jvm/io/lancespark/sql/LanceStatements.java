package io.lancespark.sql;

import io.lancespark.catalog.ForeignProcedures;
import io.lancespark.catalog.LanceProcedure;
import io.lancespark.python.LanceException;
import io.lancespark.table.Identifiers;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * Rewrites Lance statements that Spark's grammar lacks to procedure calls.
 *
 * <p>The complete text must be such a statement.
 */
public final class LanceStatements {
  private static final Set<String> FIRST = Set.of(
      "ANALYZE", "OPTIMIZE", "VACUUM", "RESTORE", "DESCRIBE", "DESC", "ALTER", "SHOW", "CREATE", "DROP", "CONVERT",
      "REORG", "UNDROP", "CALL", "COPY", "FSCK", "MSCK", "GENERATE");

  private final SqlTokens tokens;
  private final UnaryOperator<List<String>> resolve;
  private final Function<String, List<String>> named;
  private final List<String> arguments = new ArrayList<>();
  private String catalog;

  private LanceStatements(
      SqlTokens tokens, UnaryOperator<List<String>> resolve, Function<String, List<String>> named) {
    this.tokens = tokens;
    this.resolve = resolve;
    this.named = named;
  }

  /**
   * The equivalent CALL; null if the text is not a Lance statement.
   *
   * @param resolve returns the qualified name of a table, catalog first, or null if it is not in a Lance catalog
   * @param named returns the name that a string or the marker of a parameter stands for, or null
   * @throws LanceException (unchecked) if another table format has the statement, or part of it: what to write instead
   */
  public static String rewrite(
      String text, UnaryOperator<List<String>> resolve, Function<String, List<String>> named) {
    String first = SqlTokens.firstWord(text);
    if (first == null || !FIRST.contains(first.toUpperCase(Locale.ROOT))) {
      return null;
    }
    SqlTokens tokens = SqlTokens.of(text);
    return tokens == null ? null : new LanceStatements(tokens, resolve, named).rewritten();
  }

  public static String quoted(List<String> parts) {
    return String.join(".", parts.stream().map(part -> "`" + part.replace("`", "``") + "`").toList());
  }

  private String rewritten() {
    String procedure = procedure();
    if (procedure == null || !tokens.atEnd()) {
      tokens.restart();
      String hint = tokens.take("CALL") ? missingProcedure() : LanceHints.of(tokens, this::table);
      if (hint != null) {
        throw LanceException.invalid(hint);
      }
      return null;
    }
    return "CALL " + quoted(List.of(catalog, LanceProcedure.NAMESPACE, procedure))
        + "(" + String.join(", ", arguments) + ")";
  }

  private String procedure() {
    if (tokens.take("OPTIMIZE")) {
      return table() && chosen() && order() && options() ? "optimize" : null;
    } else if (tokens.take("VACUUM")) {
      return table() && options() ? "vacuum" : null;
    } else if (tokens.take("RESTORE")) {
      tokens.take("TABLE");
      return table() && restored() ? "restore" : null;
    } else if (tokens.take("DESCRIBE", "HISTORY") || tokens.take("DESC", "HISTORY")) {
      return table() && (!tokens.take("LIMIT") || number("limit")) ? "history" : null;
    } else if (tokens.take("SHOW", "BRANCHES") || tokens.take("SHOW", "BRANCH")) {
      return inTable() ? "list_branches" : null;
    } else if (tokens.take("SHOW", "TAGS") || tokens.take("SHOW", "TAG")) {
      return inTable() ? "list_tags" : null;
    } else if (tokens.take("SHOW", "INDEXES") || tokens.take("SHOW", "INDEX")) {
      return inTable() ? "show_indexes" : null;
    } else if (tokens.take("CREATE", "INDEX")) {
      return namedIndex() && onTable() && describedIndex() ? "create_index" : null;
    } else if (tokens.take("DROP", "INDEX")) {
      return dropped("name") && onTable() ? "drop_index" : null;
    } else if (tokens.take("ANALYZE", "TABLE")) {
      return table() && tokens.take("COMPUTE", "STATISTICS") && analyzed() ? "analyze" : null;
    } else if (tokens.take("ALTER", "TABLE")) {
      return table() ? altered() : null;
    } else if (tokens.take("CONVERT", "TO", "LANCE")) {
      return imported() && tokens.take("AS") && table() && options() ? "import_table" : null;
    }
    return null;
  }

  /** What to write instead of a call, if it is of a procedure that the Lance catalog does not have; else null. */
  private String missingProcedure() {
    List<String> parts = tokens.identifier();
    List<String> whole = parts == null || parts.size() < 2 ? null : resolve.apply(parts);
    boolean isOurs = whole != null && whole.size() == 3 && whole.get(1).equalsIgnoreCase(LanceProcedure.NAMESPACE);
    return isOurs && !LanceProcedure.names().contains(whole.get(2).toLowerCase(Locale.ROOT))
        ? ForeignProcedures.missing(whole.get(0), whole.get(2))
        : null;
  }

  private boolean inTable() {
    return (tokens.take("IN") || tokens.take("FROM")) && table();
  }

  private boolean onTable() {
    if (!tokens.take("ON")) {
      return false;
    }
    tokens.take("TABLE");
    return table();
  }

  /** The name of a table in a Lance catalog, as it is or in IDENTIFIER. */
  private boolean table() {
    List<String> parts;
    if (tokens.takeCall("IDENTIFIER")) {
      String value = tokens.value();
      parts = value == null || !tokens.takeSymbol(")") ? null : named.apply(value);
    } else {
      parts = tokens.identifier();
    }
    List<String> whole = parts == null ? null : resolve.apply(parts);
    if (whole == null) {
      return false;
    }
    catalog = whole.get(0);
    arguments.add("table => " + literal(quoted(whole)));
    return true;
  }

  /** A name of any catalog, or a format and a path. */
  private boolean imported() {
    List<String> parts = tokens.identifier();
    return parts != null && arguments.add("source => " + literal(quoted(parts)));
  }

  private boolean restored() {
    if (!tokens.take("TO")) {
      return false;
    }
    if (tokens.take("TAG")) {
      return name("tag");
    }
    if (!tokens.take("VERSION")) {
      return false;
    }
    tokens.take("AS", "OF");
    return number("version") || string("tag");
  }

  private String altered() {
    if (tokens.take("CREATE", "BRANCH")) {
      return created("branch") ? "create_branch" : null;
    } else if (tokens.take("CREATE", "TAG")) {
      return created("tag") ? "create_tag" : null;
    } else if (tokens.take("DROP", "BRANCH")) {
      return dropped("branch") ? "drop_branch" : null;
    } else if (tokens.take("DROP", "TAG")) {
      return dropped("tag") ? "drop_tag" : null;
    } else if (tokens.take("CREATE", "INDEX")) {
      return namedIndex() && describedIndex() ? "create_index" : null;
    } else if (tokens.take("DROP", "INDEX")) {
      return dropped("name") ? "drop_index" : null;
    } else if (tokens.take("OPTIMIZE", "INDEX")) {
      return name("name") && options() ? "optimize_index" : null;
    } else if (tokens.take("REFRESH", "INDEX")) {
      return name("name") ? "refresh_index" : null;
    } else if (tokens.take("SET", "UNENFORCED", "PRIMARY", "KEY")) {
      return columns() ? "set_primary_key" : null;
    } else if (tokens.take("ADD", "COLUMNS")) {
      return columns() && source() ? "add_columns_from" : null;
    } else if (tokens.take("UPDATE", "COLUMNS")) {
      return columns() && source() ? "update_columns_from" : null;
    } else if (tokens.take("ADD", "PARTITION", "FIELD")) {
      return transform("transform") && named() ? "add_partition_field" : null;
    } else if (tokens.take("DROP", "PARTITION", "FIELD")) {
      return transform("field") ? "drop_partition_field" : null;
    } else if (tokens.take("REPLACE", "PARTITION", "FIELD")) {
      boolean isComplete = transform("field") && tokens.take("WITH") && transform("transform") && named();
      return isComplete ? "replace_partition_field" : null;
    }
    return null;
  }

  /** Which columns ANALYZE TABLE names; without FOR none, for the number of rows is always known. */
  private boolean analyzed() {
    if (tokens.take("FOR", "ALL", "COLUMNS")) {
      return true;
    }
    if (tokens.take("FOR", "COLUMNS")) {
      return columns();
    }
    tokens.take("NOSCAN");
    return arguments.add("columns => array()");
  }

  private boolean namedIndex() {
    if (tokens.take("IF", "NOT", "EXISTS")) {
      arguments.add("if_not_exists => true");
    }
    return name("name");
  }

  private boolean describedIndex() {
    boolean hasKind = tokens.take("USING") ? name("kind") : arguments.add("kind => 'btree'");
    return hasKind && columns() && indexOptions();
  }

  /** The options of an index, as texts of the form name=value. As in Spark, = may be left out, and names may be strings. */
  private boolean indexOptions() {
    if (!tokens.take("WITH") && !tokens.take("OPTIONS")) {
      return true;
    }
    if (!tokens.takeSymbol("(")) {
      return false;
    }
    List<String> items = new ArrayList<>();
    do {
      String key = tokens.string();
      List<String> name = key == null ? tokens.identifier() : null;
      if (key == null && name == null) {
        return false;
      }
      tokens.takeSymbol("=");
      String value = tokens.value();
      if (value == null) {
        return false;
      }
      key = key == null ? literal(String.join(".", name)) : key;
      items.add("concat(" + key + ", '=', coalesce(CAST(" + value + " AS STRING), 'null'))");
    } while (tokens.takeSymbol(","));
    arguments.add("options => array(" + String.join(", ", items) + ")");
    return tokens.takeSymbol(")");
  }

  private boolean named() {
    return !tokens.take("AS") || name("name");
  }

  /** A column, or a function of columns, numbers and strings. */
  private boolean transform(String parameter) {
    List<String> first = tokens.identifier();
    if (first == null) {
      return false;
    }
    if (!tokens.takeSymbol("(")) {
      return arguments.add(parameter + " => " + literal(quoted(first)));
    }
    List<String> items = new ArrayList<>();
    do {
      String constant = tokens.number();
      constant = constant == null ? tokens.string() : constant;
      List<String> column = constant == null ? tokens.identifier() : null;
      if (constant == null && column == null) {
        return false;
      }
      items.add(constant == null ? quoted(column) : constant);
    } while (tokens.takeSymbol(","));
    String text = String.join(".", first) + "(" + String.join(", ", items) + ")";
    return tokens.takeSymbol(")") && arguments.add(parameter + " => " + literal(text));
  }

  private boolean created(String kind) {
    if (tokens.take("IF", "NOT", "EXISTS")) {
      arguments.add("if_not_exists => true");
    }
    if (!name(kind)) {
      return false;
    }
    if (!tokens.take("AS", "OF")) {
      return true;
    }
    if (tokens.take("VERSION")) {
      return number("version");
    } else if (tokens.take("BRANCH")) {
      return name("from_branch") && (!tokens.take("VERSION") || number("version"));
    }
    return tokens.take("TAG") && name("from_tag");
  }

  private boolean dropped(String kind) {
    if (tokens.take("IF", "EXISTS")) {
      arguments.add("if_exists => true");
    }
    return name(kind);
  }

  private boolean columns() {
    boolean open = tokens.takeSymbol("(");
    List<String> names = new ArrayList<>();
    do {
      List<String> path = tokens.identifier();
      if (path == null) {
        return false;
      }
      names.add(literal(path.size() == 1 ? path.get(0) : quoted(path)));
    } while (tokens.takeSymbol(","));
    arguments.add("columns => array(" + String.join(", ", names) + ")");
    return !open || tokens.takeSymbol(")");
  }

  /** The condition of OPTIMIZE, as it is written. */
  private boolean chosen() {
    if (!tokens.take("WHERE")) {
      return true;
    }
    String text = tokens.textBefore(List.of(List.of("ZORDER", "BY"), List.of("SORT", "BY"), List.of("WITH")));
    return text != null && arguments.add("where => " + literal(text));
  }

  /** The columns that OPTIMIZE sorts by. */
  private boolean order() {
    boolean isCurve = tokens.take("ZORDER", "BY");
    if (!isCurve && !tokens.take("SORT", "BY")) {
      return true;
    }
    boolean open = tokens.takeSymbol("(");
    List<String> names = new ArrayList<>();
    do {
      List<String> name = tokens.identifier();
      if (name == null) {
        return false;
      }
      String direction = !isCurve && tokens.take("DESC") ? " DESC" : "";
      if (!isCurve && direction.isEmpty()) {
        tokens.take("ASC");
      }
      names.add(literal(Identifiers.path(name) + direction));
    } while (tokens.takeSymbol(","));
    arguments.add((isCurve ? "zorder_by" : "sort_by") + " => array(" + String.join(", ", names) + ")");
    return !open || tokens.takeSymbol(")");
  }

  private boolean source() {
    List<String> view = tokens.take("FROM") ? tokens.identifier() : null;
    if (view == null) {
      return false;
    }
    arguments.add("source => " + literal(quoted(view)));
    return true;
  }

  private boolean options() {
    if (!tokens.take("WITH")) {
      return true;
    }
    if (!tokens.takeSymbol("(")) {
      return false;
    }
    do {
      List<String> key = tokens.identifier();
      String value = key != null && key.size() == 1 && tokens.takeSymbol("=") ? tokens.value() : null;
      if (value == null) {
        return false;
      }
      arguments.add(quoted(key) + " => " + value);
    } while (tokens.takeSymbol(","));
    return tokens.takeSymbol(")");
  }

  private boolean name(String parameter) {
    List<String> name = tokens.identifier();
    if (name == null) {
      return string(parameter);
    }
    arguments.add(parameter + " => " + literal(String.join(".", name)));
    return true;
  }

  private boolean number(String parameter) {
    String value = tokens.number();
    return value == null ? given(parameter, tokens.parameter()) : !value.contains(".") && given(parameter, value);
  }

  private boolean string(String parameter) {
    String value = tokens.string();
    return given(parameter, value == null ? tokens.parameter() : value);
  }

  private boolean given(String parameter, String value) {
    return value != null && arguments.add(parameter + " => " + value);
  }

  /** A text as a constant of SQL. */
  static String literal(String text) {
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
  }
}
