package io.lancespark.functions;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.VariantType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Conditions on the words of texts. Scans answer them; of those that Spark keeps, {@code contains_tokens} is evaluated
 * here, and the others fail, because only the table knows how its texts are analyzed.
 */
public final class LanceTextFunctions {
  public static final List<String> NAMES =
      List.of("lance_match", "lance_match_phrase", "lance_multi_match", "contains_tokens");

  /** First and last code point of each run of letters and digits, ascending; loaded when it is first needed. */
  private static int[] letters;

  private LanceTextFunctions() {}

  /** The function with this name in lower case, or null. */
  static UnboundFunction find(String name) {
    return NAMES.contains(name) ? new NamedFunction(name, usage(name), types -> bind(name, types)) : null;
  }

  /** The function for arguments of these types. */
  public static ScalarFunction<Boolean> bind(String name, DataType[] types) {
    boolean isSearch = !name.equals("contains_tokens");
    int most = name.equals("lance_multi_match") ? Integer.MAX_VALUE : isSearch ? 3 : 2;
    boolean fits = types.length >= (name.equals("lance_multi_match") ? 3 : 2) && types.length <= most;
    for (int place = 0; place < types.length; place++) {
      boolean isSlop = name.equals("lance_match_phrase") && place == 2;
      boolean isList = isSearch && types[place] instanceof ArrayType array && array.elementType() instanceof StringType;
      boolean isText = types[place] instanceof StringType || types[place] instanceof NullType;
      boolean isJson = isSearch && types[place] instanceof VariantType;
      fits = fits && (isSlop ? types[place] instanceof IntegerType : isText || isList || isJson);
    }
    if (!fits) {
      throw LanceException.invalid(
          name + " does not take arguments of types " + Arrays.toString(types) + "; use it as " + usage(name));
    }
    DataType[] inputs = types.clone();
    Arrays.setAll(inputs, place -> types[place] instanceof NullType ? DataTypes.StringType : types[place]);
    return isSearch ? new Search(name, List.of(inputs), false) : new ContainsTokens(List.of(inputs), new Letters(letters()));
  }

  /** Whether a function is a text search whose table is not known yet. */
  public static boolean isUnbound(ScalarFunction<?> function) {
    return function instanceof Search search && !search.isBound();
  }

  /**
   * A call of a text search with the table and the columns that it was written for, as JSON.
   *
   * @param columns its arguments, with lists in place of members of their structs
   */
  public static Expression bound(ApplyFunctionExpression call, List<Expression> columns, String target) {
    Search search = (Search) call.function();
    List<DataType> types = new ArrayList<>();
    columns.forEach(column -> types.add(column.dataType()));
    types.add(DataTypes.StringType);
    List<Expression> arguments = new ArrayList<>(columns);
    arguments.add(Literal$.MODULE$.apply(target));
    return new ApplyFunctionExpression(
        new Search(search.name(), List.copyOf(types), true), CollectionConverters.asScala(arguments).toSeq());
  }

  /** How a function is called. */
  public static String usage(String name) {
    return switch (name) {
      case "lance_match" -> "lance_match(column, 'words'[, 'fuzziness=1,operator=AND,...']) - whether a text has one"
          + " of the words, or all of them";
      case "lance_match_phrase" -> "lance_match_phrase(column, 'words'[, slop]) - whether a text has the words one"
          + " after another";
      case "lance_multi_match" -> "lance_multi_match('words'[, 'options'], column, column, ...) - lance_match over"
          + " several columns";
      default -> "contains_tokens(text, 'words') - whether a text has all runs of letters and digits of the words";
    };
  }

  private static synchronized int[] letters() {
    if (letters == null) {
      JsonNode runs = PythonChannel.call("text.letters", Json.object()).body().get("runs");
      int[] found = new int[runs.size()];
      Arrays.setAll(found, place -> runs.get(place).asInt());
      letters = found;
    }
    return letters;
  }

  private interface TextPredicate extends ScalarFunction<Boolean> {
    List<DataType> types();

    @Override
    default DataType[] inputTypes() {
      return types().toArray(new DataType[0]);
    }

    @Override
    default DataType resultType() {
      return DataTypes.BooleanType;
    }

    @Override
    default String canonicalName() {
      return "io.lancespark." + name();
    }
  }

  /** Fails for every row. */
  private record Search(String name, List<DataType> types, boolean isBound) implements TextPredicate {
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

  private record ContainsTokens(List<DataType> types, Letters letters) implements TextPredicate {
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
