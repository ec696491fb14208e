package io.lancespark.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The tokens of a statement, consumed in order; comments and whitespace are skipped. */
public final class SqlTokens {
  private static final Pattern BLANK = Pattern.compile("(?:\\s+|--[^\\n]*)+");
  private static final Pattern TOKEN =
      Pattern.compile(
          "(?<quoted>`(?:[^`]++|``)*`)"
              + "|(?<string>'(?:[^'\\\\]++|\\\\.|'')*'|\"(?:[^\"\\\\]++|\\\\.|\"\")*\")"
              + "|(?<number>-?\\d+(?:\\.\\d+)?(?![\\w]))"
              + "|(?<word>\\w+)"
              + "|(?<symbol>[-+*/%=<>!().,;:\\[\\]{}?|&^~$@#])",
          Pattern.DOTALL);

  private enum Kind {
    QUOTED,
    STRING,
    NUMBER,
    WORD,
    SYMBOL
  }

  private record Token(Kind kind, String text) {}

  private final String text;
  private final List<Token> tokens;
  private final List<Integer> starts;
  private int next;

  private SqlTokens(String text, List<Token> tokens, List<Integer> starts) {
    this.text = text;
    this.tokens = tokens;
    this.starts = starts;
  }

  /** The first word of a text, or null if it does not begin with a word. */
  static String firstWord(String text) {
    int place = afterBlanks(text, 0);
    Matcher matcher = TOKEN.matcher(text).region(place, text.length());
    return matcher.lookingAt() ? matcher.group("word") : null;
  }

  /** All tokens of a text, or null if part of it is not a token. A trailing semicolon is dropped. */
  static SqlTokens of(String text) {
    List<Token> tokens = new ArrayList<>();
    List<Integer> starts = new ArrayList<>();
    Matcher matcher = TOKEN.matcher(text);
    int place = afterBlanks(text, 0);
    while (place < text.length()) {
      matcher.region(place, text.length());
      if (!matcher.lookingAt()) {
        return null;
      }
      tokens.add(token(matcher));
      starts.add(place);
      place = afterBlanks(text, matcher.end());
    }
    while (!tokens.isEmpty() && tokens.get(tokens.size() - 1).equals(new Token(Kind.SYMBOL, ";"))) {
      tokens.remove(tokens.size() - 1);
    }
    return new SqlTokens(text, tokens, starts);
  }

  private static Token token(Matcher matcher) {
    for (Kind kind : Kind.values()) {
      String text = matcher.group(kind.name().toLowerCase(java.util.Locale.ROOT));
      if (text != null) {
        return new Token(kind, text);
      }
    }
    throw new IllegalStateException("a token of no kind");
  }

  private static int afterBlanks(String text, int start) {
    int place = start;
    Matcher blank = BLANK.matcher(text);
    while (true) {
      if (blank.region(place, text.length()).lookingAt()) {
        place = blank.end();
      } else if (text.startsWith("/*", place) && !text.startsWith("/*+", place)) {
        place = afterComment(text, place);
      } else {
        return place;
      }
    }
  }

  /** The end of a comment, which may contain nested ones. */
  private static int afterComment(String text, int start) {
    int depth = 0;
    int place = start;
    while (place < text.length()) {
      if (text.startsWith("/*", place)) {
        depth++;
        place += 2;
      } else if (text.startsWith("*/", place)) {
        depth--;
        place += 2;
        if (depth == 0) {
          return place;
        }
      } else {
        place++;
      }
    }
    return place;
  }

  boolean atEnd() {
    return next == tokens.size();
  }

  /** Consumes these words, ignoring case, if all of them come next. */
  boolean take(String... words) {
    for (int index = 0; index < words.length; index++) {
      Token token = peek(index);
      if (token == null || token.kind() != Kind.WORD || !token.text().equalsIgnoreCase(words[index])) {
        return false;
      }
    }
    next += words.length;
    return true;
  }

  /** Goes behind these words, ignoring case, wherever they come next outside of strings and quoted names. */
  boolean seek(String... words) {
    int start = next;
    for (; next < tokens.size(); next++) {
      if (take(words)) {
        return true;
      }
    }
    next = start;
    return false;
  }

  /** The text up to one of these sequences of words outside of parentheses, or the end; null if it is empty. */
  String textBefore(List<List<String>> ends) {
    int first = next;
    int depth = 0;
    for (; next < tokens.size() && !(depth == 0 && ends.stream().anyMatch(this::comes)); next++) {
      String symbol = tokens.get(next).kind() == Kind.SYMBOL ? tokens.get(next).text() : "";
      depth += symbol.equals("(") ? 1 : symbol.equals(")") ? -1 : 0;
    }
    if (next == first) {
      return null;
    }
    int last = starts.get(next - 1) + tokens.get(next - 1).text().length();
    return text.substring(starts.get(first), last);
  }

  private boolean comes(List<String> words) {
    int start = next;
    boolean result = take(words.toArray(String[]::new));
    next = start;
    return result;
  }

  /** Goes back to the first token. */
  void restart() {
    next = 0;
  }

  /** Consumes a word and the opening parenthesis after it, if both come next. */
  boolean takeCall(String word) {
    Token parenthesis = peek(1);
    return parenthesis != null
        && parenthesis.equals(new Token(Kind.SYMBOL, "("))
        && take(word)
        && takeSymbol("(");
  }

  boolean takeSymbol(String symbol) {
    Token token = peek(0);
    if (token == null || token.kind() != Kind.SYMBOL || !token.text().equals(symbol)) {
      return false;
    }
    next++;
    return true;
  }

  /** The parts of a name, or null if the next token is not one. */
  List<String> identifier() {
    List<String> parts = new ArrayList<>();
    do {
      Token token = peek(0);
      if (token == null || (token.kind() != Kind.WORD && token.kind() != Kind.QUOTED)) {
        return null;
      }
      next++;
      parts.add(
          token.kind() == Kind.WORD
              ? token.text()
              : token.text().substring(1, token.text().length() - 1).replace("``", "`"));
    } while (takeSymbol("."));
    return parts;
  }

  /** A number as written, or null if the next token is not one. */
  String number() {
    return taken(Kind.NUMBER);
  }

  /** A string with its quotes, or null if the next token is not one. */
  String string() {
    return taken(Kind.STRING);
  }

  /** The marker of a parameter, {@code ?} or {@code :name}, or null if the next token is not one. */
  String parameter() {
    if (takeSymbol("?")) {
      return "?";
    }
    Token name = peek(1);
    if (name == null || name.kind() != Kind.WORD || !takeSymbol(":")) {
      return null;
    }
    next++;
    return ":" + name.text();
  }

  /** A number, a string, TRUE, FALSE, NULL or the marker of a parameter. */
  String value() {
    for (String constant : List.of("TRUE", "FALSE", "NULL")) {
      if (take(constant)) {
        return constant;
      }
    }
    String number = number();
    String string = number == null ? string() : number;
    return string == null ? parameter() : string;
  }

  private String taken(Kind kind) {
    Token token = peek(0);
    if (token == null || token.kind() != kind) {
      return null;
    }
    next++;
    return token.text();
  }

  private Token peek(int ahead) {
    return next + ahead < tokens.size() ? tokens.get(next + ahead) : null;
  }
}
