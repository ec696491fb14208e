package io.lancespark.functions;

import io.lancespark.python.Json;
import io.lancespark.python.LanceException;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;

/**
 * {@code lance_distance(vector, query[, metric])}: the distance between two arrays of numbers, as FLOAT.
 *
 * <p>Scans order rows by the same distance: {@code lance_spark/kernels/vector/ordered_distances.py} adds in the same
 * order, so both have the same bits.
 */
public final class LanceDistance {
  public static final String NAME = "lance_distance";

  static final List<NamedFunction> ALL =
      List.of(
          NamedFunction.of(
              NAME,
              "array_funcs",
              "(vector, query[, metric]) - the distance between two vectors, as FLOAT: 'l2' (squared), 'cosine', 'dot'"
                  + " or, for whole numbers from 0 to 255, 'hamming'",
              LanceDistance::bind));

  /** The number of partial sums: item i is added to sum i % LANES. */
  private static final int LANES = 8;

  private LanceDistance() {}

  private static Distance bind(DataType[] types) {
    boolean fits = types.length == 2 || types.length == 3;
    for (int place = 0; place < types.length && fits; place++) {
      boolean isVector = types[place] instanceof ArrayType array && array.elementType() instanceof NumericType;
      boolean isMetric = types[place] instanceof StringType;
      fits = types[place] instanceof NullType || (place < 2 ? isVector : isMetric);
    }
    DataType vector = DataTypes.createArrayType(DataTypes.FloatType);
    return fits
        ? new Distance(TypedFunction.withoutNull(types, place -> place < 2 ? vector : DataTypes.StringType))
        : null;
  }

  private record Distance(List<DataType> types) implements TypedFunction<Float> {
    @Override
    public DataType resultType() {
      return DataTypes.FloatType;
    }

    @Override
    public String name() {
      return NAME;
    }

    /** As plans show it. */
    @Override
    public String toString() {
      return NAME;
    }

    @Override
    public Float produceResult(InternalRow row) {
      if (TypedFunction.hasNull(row, types.size())) {
        return null;
      }
      double[] vector = Json.numbers(row.getArray(0), item(0));
      double[] query = Json.numbers(row.getArray(1), item(1));
      if (vector.length != query.length) {
        throw LanceException.invalidInTask(
            NAME + " compares vectors of equal length; the vector has " + vector.length + " values, the query "
                + query.length);
      }
      String metric = types.size() < 3 ? "l2" : row.getUTF8String(2).toString().toLowerCase(Locale.ROOT);
      boolean isWhole = item(0) instanceof IntegralType;
      return switch (metric) {
        case "l2", "euclidean" -> {
          refuseWhole(isWhole, metric);
          yield isDouble() ? (float) squares(vector, query) : squares(floats(vector), floats(query));
        }
        case "cosine" -> {
          refuseWhole(isWhole, metric);
          yield isDouble() ? (float) (1 - cosine(vector, query)) : 1 - cosine(floats(vector), floats(query));
        }
        case "dot" -> {
          refuseWhole(isWhole, metric);
          yield isDouble() ? (float) (1 - dot(vector, query)) : 1 - dot(floats(vector), floats(query));
        }
        case "hamming" -> hamming(vector, query, isWhole);
        default -> throw LanceException.invalidInTask(
            "there is no metric '" + metric + "'; use one of l2, cosine, dot, hamming");
      };
    }

    private DataType item(int place) {
      return ((ArrayType) types.get(place)).elementType();
    }

    /** Whether to compute in double precision: the vector decides, or the query if the vector is not binary. */
    private boolean isDouble() {
      boolean isBinary = item(0) instanceof FloatType || item(0) instanceof DoubleType;
      return item(isBinary ? 0 : 1) instanceof DoubleType;
    }
  }

  private static void refuseWhole(boolean isWhole, String metric) {
    if (isWhole) {
      throw LanceException.invalidInTask(
          NAME + " compares whole numbers by 'hamming' only, not by '" + metric + "'; cast them to ARRAY<FLOAT>");
    }
  }

  private static float hamming(double[] vector, double[] query, boolean isWhole) {
    int bits = 0;
    for (int place = 0; place < vector.length; place++) {
      bits += Integer.bitCount(oneByte(vector[place], isWhole) ^ oneByte(query[place], isWhole));
    }
    return bits;
  }

  private static int oneByte(double value, boolean isWhole) {
    if (!isWhole || value < 0 || value > 255 || value != Math.rint(value)) {
      throw LanceException.invalidInTask(
          NAME + " compares by 'hamming' arrays of whole numbers from 0 to 255; for floats use l2, cosine or dot");
    }
    return (int) value;
  }

  private static float[] floats(double[] values) {
    float[] floats = new float[values.length];
    for (int place = 0; place < floats.length; place++) {
      floats[place] = (float) values[place];
    }
    return floats;
  }

  private static float total(float[] lanes) {
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }

  private static float squares(float[] a, float[] b) {
    float[] lanes = new float[LANES];
    for (int place = 0; place < a.length; place++) {
      float difference = a[place] - b[place];
      lanes[place % LANES] += difference * difference;
    }
    return total(lanes);
  }

  private static float dot(float[] a, float[] b) {
    float[] lanes = new float[LANES];
    for (int place = 0; place < a.length; place++) {
      lanes[place % LANES] += a[place] * b[place];
    }
    return total(lanes);
  }

  private static float cosine(float[] a, float[] b) {
    float lengths = (float) Math.sqrt(dot(a, a)) * (float) Math.sqrt(dot(b, b));
    return dot(a, b) / lengths;
  }

  private static double total(double[] lanes) {
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }

  private static double squares(double[] a, double[] b) {
    double[] lanes = new double[LANES];
    for (int place = 0; place < a.length; place++) {
      double difference = a[place] - b[place];
      lanes[place % LANES] += difference * difference;
    }
    return total(lanes);
  }

  private static double dot(double[] a, double[] b) {
    double[] lanes = new double[LANES];
    for (int place = 0; place < a.length; place++) {
      lanes[place % LANES] += a[place] * b[place];
    }
    return total(lanes);
  }

  private static double cosine(double[] a, double[] b) {
    double lengths = Math.sqrt(dot(a, a)) * Math.sqrt(dot(b, b));
    return dot(a, b) / lengths;
  }
}
