package io.lancespark.functions;

import io.lancespark.compat.Variants;
import io.lancespark.python.LanceException;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.types.variant.Variant;
import org.apache.spark.types.variant.VariantBuilder;
import org.apache.spark.types.variant.VariantUtil.Type;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * Values of JSON documents by path. Scans answer comparisons of them, by an index where there is one; what Spark keeps
 * is evaluated here, with the values of {@code lance_spark/expr/json_path}.
 */
public final class LanceJsonFunctions {
  private static final String EXISTS = "json_exists";
  public static final String LENGTH = "json_array_length";

  /** The name of {@link #LENGTH} in sessions, where Spark has a function of that name. */
  public static final String LENGTH_AT = "lance_json_array_length";

  private static final String CONTAINS = "json_array_contains";
  private static final String EXTRACT = "json_extract";
  private static final Pattern STEP =
      Pattern.compile("\\.([A-Za-z_][A-Za-z0-9_]*)|\\.\"([^\"]*)\"|\\[(\\d+)\\]|\\[\"([^\"]*)\"\\]");
  private static final Pattern WHOLE = Pattern.compile("[+-]?[0-9]+");
  private static final Pattern NUMBER = Pattern.compile("[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?");
  private static final Pattern WORD = Pattern.compile("([+-]?)(inf|infinity|nan)", Pattern.CASE_INSENSITIVE);

  static final List<NamedFunction> ALL =
      Stream.of("json_get_int", "json_get_float", "json_get_string", "json_get_bool", EXISTS, LENGTH, CONTAINS, EXTRACT)
          .map(LanceJsonFunctions::named)
          .toList();

  private LanceJsonFunctions() {}

  private static NamedFunction named(String name) {
    String sessionName = name.equals(LENGTH) ? LENGTH_AT : name;
    return new NamedFunction(name, sessionName, meaning(name), "json_funcs", types -> bind(name, types));
  }

  private static String meaning(String name) {
    return switch (name) {
      case EXISTS -> "(json, '$.path') - whether a JSON document has something at a path";
      case LENGTH -> "(json, '$.path') - the number of items of the array at a path, 0 for anything else";
      case CONTAINS -> "(json, '$.path', 'item') - whether the array at a path has an item";
      case EXTRACT -> "(json, '$.path') - what is at a path of a JSON document, as JSON text";
      default -> "(json, 'path') - the value at a path of a JSON document, NULL if it is not one of this type;"
          + " a path that does not begin with $ is one key";
    };
  }

  private static Bound bind(String name, DataType[] types) {
    boolean fits = types.length == (name.equals(CONTAINS) ? 3 : 2);
    for (int place = 0; place < types.length && fits; place++) {
      boolean isDocument = place == 0 && types[0] instanceof VariantType;
      fits = isDocument || types[place] instanceof StringType || types[place] instanceof NullType;
    }
    return fits ? new Bound(name, TypedFunction.withoutNull(types, place -> DataTypes.StringType)) : null;
  }

  private record Bound(String name, List<DataType> types) implements TypedFunction<Object> {
    @Override
    public DataType resultType() {
      return switch (name) {
        case "json_get_int", LENGTH -> DataTypes.LongType;
        case "json_get_float" -> DataTypes.DoubleType;
        case "json_get_string", EXTRACT -> DataTypes.StringType;
        default -> DataTypes.BooleanType;
      };
    }

    /** As plans show it. */
    @Override
    public String toString() {
      return name;
    }

    @Override
    public Object produceResult(InternalRow row) {
      if (TypedFunction.hasNull(row, types.size())) {
        return null;
      }
      Variant document = document(row, types.get(0));
      if (document == null) {
        return null;
      }
      Variant result = at(document, steps(name, row.getUTF8String(1).toString()));
      switch (name) {
        case EXISTS:
          return result != null;
        case LENGTH:
          return result == null ? null : (Object) (long) (result.getType() == Type.ARRAY ? result.arraySize() : 0);
        case EXTRACT:
          return result == null ? null : UTF8String.fromString(written(result));
        case CONTAINS:
          return contains(result, row.getUTF8String(2).toString());
        default:
          Object value = result == null ? null : scalar(result);
          return value == null ? null : converted(name, value);
      }
    }
  }

  /** The document of a row; null if it is a text that is no JSON. */
  private static Variant document(InternalRow row, DataType type) {
    if (type instanceof VariantType) {
      VariantVal value = row.getVariant(0);
      return new Variant(value.getValue(), value.getMetadata());
    }
    try {
      return VariantBuilder.parseJson(row.getUTF8String(0).toString(), false);
    } catch (IOException | RuntimeException error) {
      return null;
    }
  }

  /** The keys, texts, and positions, numbers, of a path. */
  private static List<Object> steps(String name, String path) {
    if (!path.startsWith("$")) {
      if (!name.startsWith("json_get_")) {
        throw LanceException.invalidInTask(
            "the path of " + name + " begins with $, such as $.key[0], got '" + path + "'");
      }
      return List.of(path);
    }
    List<Object> steps = new ArrayList<>();
    Matcher step = STEP.matcher(path);
    for (int position = 1; position < path.length(); position = step.end()) {
      if (!step.find(position) || step.start() != position) {
        throw LanceException.invalidInTask(
            "'" + path + "' is no path into JSON; write it as $.key[0].\"other key\"");
      }
      if (step.group(3) != null) {
        steps.add(new BigInteger(step.group(3)).min(BigInteger.valueOf(Integer.MAX_VALUE)).intValue());
      } else {
        steps.add(step.group(1) != null ? step.group(1) : step.group(2) != null ? step.group(2) : step.group(4));
      }
    }
    return steps;
  }

  private static Variant at(Variant document, List<Object> steps) {
    Variant result = document;
    for (Object step : steps) {
      if (step instanceof String key) {
        result = result.getType() == Type.OBJECT ? result.getFieldByKey(key) : null;
      } else {
        int place = (Integer) step;
        result = result.getType() == Type.ARRAY && place < result.arraySize() ? result.getElementAtIndex(place) : null;
      }
      if (result == null) {
        return null;
      }
    }
    return result;
  }

  /** A Boolean, BigInteger, Double or String; null for null, an array, an object, and types that JSON does not have. */
  private static Object scalar(Variant value) {
    return switch (value.getType()) {
      case BOOLEAN -> value.getBoolean();
      case STRING -> value.getString();
      case LONG -> BigInteger.valueOf(value.getLong());
      case DOUBLE -> value.getDouble();
      case FLOAT -> (double) value.getFloat();
      case DECIMAL -> {
        BigDecimal decimal = Variants.decimal(value);
        yield decimal.scale() <= 0 ? (Object) decimal.toBigInteger() : (Object) decimal.doubleValue();
      }
      default -> null;
    };
  }

  private static Object converted(String name, Object value) {
    switch (name) {
      case "json_get_int":
        return whole(value);
      case "json_get_float":
        return number(value);
      case "json_get_string":
        return UTF8String.fromString(value instanceof Double number ? text(number, -4) : value.toString());
      default:
        boolean isWord = value.equals("true") || value.equals("false");
        return value instanceof Boolean ? value : isWord ? (Object) value.equals("true") : null;
    }
  }

  private static Long whole(Object value) {
    BigInteger result;
    if (value instanceof BigInteger integer) {
      result = integer;
    } else if (value instanceof String text && WHOLE.matcher(text).matches()) {
      result = new BigInteger(text.startsWith("+") ? text.substring(1) : text);
    } else {
      Double number = number(value);
      if (number == null || number.isNaN() || Math.abs(number) >= (double) Long.MAX_VALUE) {
        return null;
      }
      result = BigInteger.valueOf((long) (number + (number >= 0 ? 0.5 : -0.5)));
    }
    return result.bitLength() < Long.SIZE ? result.longValue() : null;
  }

  private static Double number(Object value) {
    if (value instanceof Double number) {
      return number;
    }
    if (value instanceof BigInteger integer) {
      return integer.doubleValue();
    }
    if (value instanceof Boolean flag) {
      return flag ? 1.0 : 0.0;
    }
    String text = (String) value;
    if (NUMBER.matcher(text).matches()) {
      return Double.parseDouble(text);
    }
    Matcher word = WORD.matcher(text);
    if (!word.matches()) {
      return null;
    }
    double result = word.group(2).toLowerCase(Locale.ROOT).equals("nan") ? Double.NaN : Double.POSITIVE_INFINITY;
    return word.group(1).equals("-") ? -result : result;
  }

  /** A part of a document as JSON text without spaces, with keys in the order of their bytes. */
  private static String written(Variant value) {
    if (value.getType() == Type.OBJECT) {
      Map<UTF8String, String> members = new TreeMap<>();
      for (int place = 0; place < value.objectSize(); place++) {
        Variant.ObjectField field = value.getFieldAtIndex(place);
        members.put(UTF8String.fromString(field.key), quoted(field.key) + ":" + written(field.value));
      }
      return "{" + String.join(",", members.values()) + "}";
    }
    if (value.getType() == Type.ARRAY) {
      List<String> items = new ArrayList<>();
      for (int place = 0; place < value.arraySize(); place++) {
        items.add(written(value.getElementAtIndex(place)));
      }
      return "[" + String.join(",", items) + "]";
    }
    Object scalar = scalar(value);
    if (scalar instanceof Double number) {
      return Double.isFinite(number) ? text(number, -5) : "null";
    }
    return scalar instanceof String text ? quoted(text) : String.valueOf(scalar);
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char unit : text.toCharArray()) {
      int escaped = "\"\\\b\f\n\r\t".indexOf(unit);
      if (escaped >= 0) {
        quoted.append('\\').append("\"\\bfnrt".charAt(escaped));
      } else if (unit < ' ') {
        quoted.append(String.format("\\u%04x", (int) unit));
      } else {
        quoted.append(unit);
      }
    }
    return quoted.append('"').toString();
  }

  /**
   * The fewest digits that are read back as the same number, as Python writes them: 1.5, 1e+16, 1e-7.
   *
   * @param least the exponent below which there is one
   */
  private static String text(double value, int least) {
    if (value == 0 || Double.isNaN(value) || Double.isInfinite(value)) {
      return value == 0 ? String.valueOf(value) : Double.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf";
    }
    BigDecimal exact = new BigDecimal(value);
    BigDecimal result = exact;
    for (int digits = 1; digits <= 17; digits++) {
      result = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
      if (result.doubleValue() == value) {
        break;
      }
    }
    result = result.stripTrailingZeros();
    int exponent = result.precision() - result.scale() - 1;
    if (exponent >= least && exponent < 16) {
      return result.scale() <= 0 ? result.toPlainString() + ".0" : result.toPlainString();
    }
    String digits = result.unscaledValue().abs().toString();
    String fraction = digits.length() > 1 ? "." + digits.substring(1) : "";
    String sign = value < 0 ? "-" : "";
    return sign + digits.charAt(0) + fraction + "e" + (exponent < 0 ? "-" : "+") + Math.abs(exponent);
  }

  private static boolean contains(Variant result, String item) {
    int count = result != null && result.getType() == Type.ARRAY ? result.arraySize() : 0;
    for (int place = 0; place < count; place++) {
      Variant member = result.getElementAtIndex(place);
      Object value = scalar(member);
      if (value == null ? member.getType() == Type.NULL && item.equals("null") : isItem(value, item)) {
        return true;
      }
    }
    return false;
  }

  private static boolean isItem(Object value, String item) {
    if (value instanceof String text) {
      return item.equals(text) || item.equals("\"" + text + "\"");
    }
    if (value instanceof Double number) {
      Double other = number(item);
      return other != null && other.doubleValue() == number;
    }
    return item.equals(value.toString());
  }
}
