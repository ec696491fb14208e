package io.lancespark.functions;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.VariantType;

/**
 * Conditions on the words of texts. Scans answer them; of those that Spark keeps, {@code contains_tokens} is evaluated
 * here, and the others fail, because only the table knows how its texts are analyzed.
 */
public final class LanceTextFunctions {
  private static final String GROUP = "predicate_funcs";

  static final List<NamedFunction> ALL =
      List.of(
          NamedFunction.of(
              "lance_match",
              GROUP,
              "(column, 'words'[, 'fuzziness=1,operator=AND,...']) - whether a text has one of the words, or all of them",
              types -> search("lance_match", types)),
          NamedFunction.of(
              "lance_match_phrase",
              GROUP,
              "(column, 'words'[, slop]) - whether a text has the words one after another",
              types -> search("lance_match_phrase", types)),
          NamedFunction.of(
              "lance_multi_match",
              GROUP,
              "('words'[, 'options'], column, column, ...) - lance_match over several columns",
              types -> search("lance_multi_match", types)),
          NamedFunction.of(
              "contains_tokens",
              GROUP,
              "(text, 'words') - whether a text has all runs of letters and digits of the words",
              LanceTextFunctions::tokens));

  /** First and last code point of each run of letters and digits, ascending; loaded when it is first needed. */
  private static int[] letters;

  private LanceTextFunctions() {}

  private static Search search(String name, DataType[] types) {
    boolean isMulti = name.equals("lance_multi_match");
    boolean fits = types.length >= (isMulti ? 3 : 2) && (isMulti || types.length <= 3);
    for (int place = 0; place < types.length; place++) {
      boolean isSlop = name.equals("lance_match_phrase") && place == 2;
      boolean isList = types[place] instanceof ArrayType array && array.elementType() instanceof StringType;
      boolean isText = isText(types[place]) || isList || types[place] instanceof VariantType;
      fits = fits && (isSlop ? types[place] instanceof IntegerType : isText);
    }
    return fits ? new Search(name, TypedFunction.withoutNull(types, place -> DataTypes.StringType), false) : null;
  }

  private static ContainsTokens tokens(DataType[] types) {
    return types.length == 2 && isText(types[0]) && isText(types[1])
        ? new ContainsTokens(TypedFunction.withoutNull(types, place -> DataTypes.StringType), new Letters(letters()))
        : null;
  }

  private static boolean isText(DataType type) {
    return type instanceof StringType || type instanceof NullType;
  }

  /** Whether a function is a text search whose table is not known yet. */
  public static boolean isUnbound(ScalarFunction<?> function) {
    return function instanceof Search search && !search.isBound();
  }

  /** A text search whose last argument is the table and the columns that it was written for. */
  public static ScalarFunction<?> bound(ScalarFunction<?> search, List<DataType> types) {
    return new Search(search.name(), List.copyOf(types), true);
  }

  private static synchronized int[] letters() {
    if (letters == null) {
      JsonNode runs = PythonChannel.call("text.letters", Json.object()).body().get("runs");
      int[] points = new int[runs.size()];
      Arrays.setAll(points, place -> runs.get(place).asInt());
      letters = points;
    }
    return letters;
  }

  /** Fails for every row. */
  private record Search(String name, List<DataType> types, boolean isBound) implements TypedFunction<Boolean> {
    @Override
    public DataType resultType() {
      return DataTypes.BooleanType;
    }

    @Override
    public String canonicalName() {
      return "io.lancespark." + (isBound ? "bound." : "") + name;
    }

    @Override
    public Boolean produceResult(InternalRow row) {
      throw LanceException.invalidInTask(
          name
              + " is answered by scans of Lance tables only: call it in WHERE, or in ON of a join for a side that keeps only"
              + " matching rows, with columns of one table and constants,"
              + " by itself or in AND, OR and NOT with comparisons of such columns and constants; a cached table is not"
              + " scanned, the table function search reads it nevertheless");
    }
  }

  /** Runs of letters and digits; equal to each other, because all come from the same Python package. */
  private static final class Letters implements java.io.Serializable {
    private static final long serialVersionUID = 1L;
    private final int[] runs;

    private Letters(int[] runs) {
      this.runs = runs;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Letters;
    }

    @Override
    public int hashCode() {
      return Letters.class.hashCode();
    }

    private boolean has(int codePoint) {
      int place = Arrays.binarySearch(runs, codePoint);
      // Between a start (even place) and an end (odd place), the insertion point is odd.
      return place >= 0 || (-place - 1) % 2 == 1;
    }

    private List<String> tokens(String text) {
      List<String> tokens = new ArrayList<>();
      int start = -1;
      int at = 0;
      while (at < text.length()) {
        int codePoint = text.codePointAt(at);
        if (has(codePoint)) {
          start = start < 0 ? at : start;
        } else if (start >= 0) {
          tokens.add(text.substring(start, at));
          start = -1;
        }
        at += Character.charCount(codePoint);
      }
      if (start >= 0) {
        tokens.add(text.substring(start));
      }
      return tokens;
    }
  }

  private record ContainsTokens(List<DataType> types, Letters letters) implements TypedFunction<Boolean> {
    @Override
    public DataType resultType() {
      return DataTypes.BooleanType;
    }

    @Override
    public String name() {
      return "contains_tokens";
    }

    @Override
    public Boolean produceResult(InternalRow row) {
      if (row.isNullAt(0) || row.isNullAt(1)) {
        return null;
      }
      List<String> words = letters.tokens(row.getUTF8String(1).toString());
      return words.isEmpty()
          || new java.util.HashSet<>(letters.tokens(row.getUTF8String(0).toString())).containsAll(words);
    }
  }
}
