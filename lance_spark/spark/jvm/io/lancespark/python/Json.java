package io.lancespark.python;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.DecimalNode;
import com.fasterxml.jackson.databind.node.DoubleNode;
import com.fasterxml.jackson.databind.node.LongNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import io.lancespark.compat.Geometries;
import io.lancespark.compat.VariantExtraction;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.UserDefinedScalarFunc;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Converts Spark's expressions, types and values to JSON and back. */
public final class Json {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  public static ObjectNode object() {
    return MAPPER.createObjectNode();
  }

  public static ArrayNode array() {
    return MAPPER.createArrayNode();
  }

  public static JsonNode parse(byte[] text) throws IOException {
    return MAPPER.readTree(text);
  }

  public static ArrayNode strings(String[] values) {
    ArrayNode array = array();
    for (String value : values) {
      array.add(value);
    }
    return array;
  }

  public static ObjectNode map(Map<String, String> values) {
    ObjectNode object = object();
    values.forEach(object::put);
    return object;
  }

  public static Map<String, String> map(JsonNode object) {
    Map<String, String> values = new LinkedHashMap<>();
    object.properties().forEach(entry -> values.put(entry.getKey(), entry.getValue().asText()));
    return values;
  }

  public static JsonNode type(DataType type) {
    try {
      return MAPPER.readTree(type.json());
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The type of a constant or a cast: Spark keeps the collation of a text only in the fields of a schema. */
  private static JsonNode valueType(DataType type) {
    return type instanceof StringType text && !text.isUTF8BinaryCollation()
        ? TextNode.valueOf("string collate " + text.collationName())
        : type(type);
  }

  public static DataType type(JsonNode type) {
    return DataType.fromJson(type.toString());
  }

  public static StructType schema(JsonNode schema) {
    return (StructType) type(schema);
  }

  public static ArrayNode expressions(Expression[] expressions) {
    ArrayNode array = array();
    for (Expression expression : expressions) {
      array.add(expression(expression));
    }
    return array;
  }

  /** An expression as a JSON tree; unsupported ones are named "?" and never pushed. */
  public static ObjectNode expression(Expression expression) {
    VariantExtraction variant = VariantExtraction.of(expression);
    ObjectNode node = object();
    if (expression instanceof Literal<?> literal && !isText(literal.value())) {
      node.put("name", "?");
      node.set("children", array());
    } else if (expression instanceof Predicate predicate) {
      // Before literals: the constants TRUE and FALSE are both predicates and literals.
      node.put("name", predicate.name());
      node.set("children", expressions(predicate.children()));
    } else if (expression instanceof Literal<?> literal) {
      node.set("type", valueType(literal.dataType()));
      node.put(
          "literal",
          literal.value() instanceof ArrayData array && isNumeric(literal.dataType())
              ? encoded(array, ((ArrayType) literal.dataType()).elementType())
              : literal(literal.value()));
    } else if (expression instanceof NamedReference reference) {
      node.set("column", strings(reference.fieldNames()));
    } else if (expression instanceof Transform transform) {
      node.put("transform", transform.name());
      node.set("children", expressions(transform.arguments()));
    } else if (expression instanceof Cast cast) {
      node.set("type", valueType(cast.dataType()));
      node.set("cast", expression(cast.expression()));
    } else if (variant != null) {
      return variantGet(variant);
    } else if (expression instanceof UserDefinedScalarFunc call) {
      node.put("name", call.canonicalName());
      node.set("children", expressions(call.children()));
    } else if (expression instanceof GeneralScalarExpression call) {
      node.put("name", call.name());
      node.set("children", expressions(call.children()));
    } else {
      node.put("name", "?");
      node.set("children", array());
    }
    return node;
  }

  /** An extraction of a VARIANT, within a cast if it returns something else. */
  private static ObjectNode variantGet(VariantExtraction get) {
    ObjectNode node = object();
    List<String> steps = get.steps();
    node.put("name", steps.isEmpty() ? "?" : "VARIANT_GET");
    ArrayNode arguments = node.putArray("children").add(expression(get.child()));
    for (String step : steps) {
      arguments.addObject().put("literal", step).set("type", type(DataTypes.StringType));
    }
    if (DataTypes.VariantType.equals(get.type())) {
      return node;
    }
    ObjectNode cast = object();
    cast.set("type", valueType(get.type()));
    cast.set("cast", node);
    return cast;
  }

  /**
   * A predicate {@code column IN (values)} without a node per value, nulls dropped; null for other predicates.
   *
   * @param numbers receives integers and dates (as days) as an attachment
   */
  public static ObjectNode keyFilter(Predicate predicate, List<byte[]> numbers) {
    Expression[] children = predicate.children();
    if (!predicate.name().equals("IN") || !(children[0] instanceof NamedReference reference)) {
      return null;
    }
    DataType type = DataTypes.NullType;
    List<Object> values = new ArrayList<>(children.length);
    for (int index = 1; index < children.length; index++) {
      if (!(children[index] instanceof Literal<?> literal) || !isText(literal.value())) {
        return null;
      }
      type = literal.dataType();
      if (literal.value() != null) {
        values.add(literal.value());
      }
    }
    ObjectNode filter = object();
    filter.set("column", strings(reference.fieldNames()));
    filter.set("type", type(type));
    if (type instanceof IntegralType || type instanceof DateType) {
      ByteBuffer bytes = ByteBuffer.allocate(values.size() * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
      values.forEach(value -> bytes.putLong(((Number) value).longValue()));
      filter.put("attachment", numbers.size());
      numbers.add(bytes.array());
    } else {
      ArrayNode texts = filter.putArray("texts");
      values.forEach(value -> texts.add(literal(value)));
    }
    return filter;
  }

  /** The transform of a JSON description from Python. */
  public static Transform transform(JsonNode described) {
    String name = described.get("name").asText();
    JsonNode paths = described.get("columns");
    NamedReference[] columns = new NamedReference[paths.size()];
    for (int index = 0; index < columns.length; index++) {
      List<String> parts = new ArrayList<>();
      paths.get(index).forEach(part -> parts.add(part.asText()));
      columns[index] = Expressions.column(String.join(".", parts.stream().map(Json::quoted).toList()));
    }
    if (name.equals("identity")) {
      return Expressions.identity(columns[0].describe());
    }
    JsonNode number = described.get("number");
    if (name.equals("bucket")) {
      return Expressions.bucket(number.asInt(), columns[0].describe());
    }
    List<Expression> arguments = new ArrayList<>();
    if (described.hasNonNull("text")) {
      arguments.add(Expressions.literal(described.get("text").asText()));
    }
    if (!number.isNull()) {
      arguments.add(Expressions.literal(number.asInt()));
    }
    arguments.addAll(List.of(columns));
    return Expressions.apply(name, arguments.toArray(new Expression[0]));
  }

  public static Transform[] transforms(JsonNode described) {
    Transform[] transforms = new Transform[described.size()];
    for (int index = 0; index < transforms.length; index++) {
      transforms[index] = transform(described.get(index));
    }
    return transforms;
  }

  /** A top-level column; the name is not parsed, so it may contain dots. */
  public static NamedReference column(String name) {
    return Expressions.column(quoted(name));
  }

  private static String quoted(String part) {
    return "`" + part.replace("`", "``") + "`";
  }

  /** False only for a string that is not valid UTF-8, which JSON would change. */
  private static boolean isText(Object value) {
    return !(value instanceof UTF8String text) || text.isValid();
  }

  private static boolean isNumeric(DataType type) {
    return type instanceof ArrayType array && array.elementType() instanceof NumericType;
  }

  /** The items of an array of numbers; null items are 0. */
  public static double[] numbers(ArrayData array, DataType item) {
    double[] numbers = new double[array.numElements()];
    for (int place = 0; place < numbers.length; place++) {
      if (!array.isNullAt(place)) {
        numbers[place] = number(array, place, item);
      }
    }
    return numbers;
  }

  private static double number(ArrayData array, int place, DataType item) {
    if (item instanceof FloatType) {
      return array.getFloat(place);
    } else if (item instanceof DoubleType) {
      return array.getDouble(place);
    } else if (item instanceof DecimalType type) {
      return array.getDecimal(place, type.precision(), type.scale()).toJavaBigDecimal().doubleValue();
    }
    return ((Number) array.get(place, item)).doubleValue();
  }

  /** Numbers as doubles, little-endian, in base64. */
  private static String encoded(ArrayData array, DataType item) {
    double[] values = numbers(array, item);
    ByteBuffer bytes = ByteBuffer.allocate(values.length * Double.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    for (double value : values) {
      bytes.putDouble(value);
    }
    return Base64.getEncoder().encodeToString(bytes.array());
  }

  private static String literal(Object value) {
    if (value == null) {
      return null;
    }
    byte[] geometry = Geometries.binary(value);
    if (geometry != null) {
      return literal(geometry);
    }
    return value instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes) : value.toString();
  }

  /** A constant of a query; values that are neither text, numbers, booleans nor arrays of such become their text. */
  public static JsonNode constant(Object value, DataType type) {
    if (value == null) {
      return NullNode.getInstance();
    } else if (value instanceof ArrayData array && type instanceof ArrayType items) {
      ArrayNode constants = array();
      for (int index = 0; index < array.numElements(); index++) {
        Object item = array.isNullAt(index) ? null : array.get(index, items.elementType());
        constants.add(constant(item, items.elementType()));
      }
      return constants;
    } else if (value instanceof Boolean flag) {
      return BooleanNode.valueOf(flag);
    } else if (value instanceof Decimal decimal) {
      return DecimalNode.valueOf(decimal.toJavaBigDecimal());
    } else if (value instanceof Double || value instanceof Float) {
      return DoubleNode.valueOf(((Number) value).doubleValue());
    } else if (value instanceof Number number) {
      return LongNode.valueOf(number.longValue());
    }
    return TextNode.valueOf(value.toString());
  }

  /** Parses the text of a value to Spark's internal representation. */
  public static Object value(JsonNode text, DataType type) {
    if (text == null || text.isNull()) {
      return null;
    }
    String value = text.asText();
    if (type instanceof StringType) {
      return UTF8String.fromString(value);
    } else if (type instanceof BooleanType) {
      return Boolean.valueOf(value);
    } else if (type instanceof ByteType) {
      return Byte.valueOf(value);
    } else if (type instanceof ShortType) {
      return Short.valueOf(value);
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return Integer.valueOf(value);
    } else if (type instanceof FloatType) {
      return Float.valueOf(value);
    } else if (type instanceof DoubleType) {
      return Double.valueOf(value);
    } else if (type instanceof DecimalType decimal) {
      return Decimal.apply(new BigDecimal(value), decimal.precision(), decimal.scale());
    } else if (type instanceof BinaryType) {
      return Base64.getDecoder().decode(value);
    }
    // Timestamps, times and intervals are integer counts of a unit.
    return Long.valueOf(value);
  }
}
