package io.lancespark.functions;

import java.io.Serializable;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.Reducer;
import org.apache.spark.sql.connector.catalog.functions.ReducibleFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * The functions of the catalog: those of {@link #OF_VALUES}, and the partition transforms of the partitioning
 * specification, for clustering and storage-partitioned joins. They compute the same values as {@code lance_spark.partitioned.transforms}; {@code years} to {@code hours} cover a whole
 * hierarchy.
 */
public final class LanceFunctions {
  /** Spark joins only on functions of one column, so the width is part of the name. */
  private static final Pattern TRUNCATE = Pattern.compile("truncate_([1-9][0-9]{0,9})");

  private static final String TRUNCATED =
      " - the first characters of a text, or a number rounded toward zero to a multiple of the width";

  /** Functions that are not partition transforms; sessions have them too. */
  public static final List<NamedFunction> OF_VALUES =
      Stream.of(
              LanceTextFunctions.ALL,
              LanceDistance.ALL,
              LanceJsonFunctions.ALL,
              MinorFunctions.ALL,
              LanceBlobUri.ALL)
          .flatMap(List::stream)
          .toList();

  private static final Map<String, NamedFunction> ALL = all();

  private LanceFunctions() {}

  private static Map<String, NamedFunction> all() {
    Map<String, NamedFunction> all = new LinkedHashMap<>();
    List<NamedFunction> transforms = new ArrayList<>();
    transforms.add(transform("bucket", "(n, column) - one of n buckets, by a hash of the value", LanceFunctions::bucket));
    transforms.add(
        transform(
            "multi_bucket",
            "(n, column, column, ...) - one of n buckets, by a hash of several values; nulls are left out",
            LanceFunctions::multiBucket));
    transforms.add(transform("truncate", "(width, column)" + TRUNCATED, types -> truncate(types, -1)));
    for (Period period : Period.values()) {
      String plural = period.plural();
      String singular = period.singular();
      transforms.add(
          transform(
              plural,
              "(column) - complete " + plural + " since 1970",
              types -> new PeriodSinceEpoch(period, only(plural, types, period))));
      transforms.add(
          transform(
              singular,
              "(column) - the " + singular + " of a date or time",
              types -> new DatePart(period, only(singular, types, period))));
    }
    Stream.concat(transforms.stream(), OF_VALUES.stream()).forEach(function -> all.put(function.name(), function));
    return all;
  }

  public static String[] names() {
    return ALL.keySet().toArray(new String[0]);
  }

  /** The function with this name, or null. */
  public static UnboundFunction find(String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    Matcher truncate = TRUNCATE.matcher(lower);
    if (truncate.matches() && Long.parseLong(truncate.group(1)) <= Integer.MAX_VALUE) {
      int width = Integer.parseInt(truncate.group(1));
      return transform(lower, "(column)" + TRUNCATED, types -> truncate(types, width));
    }
    return ALL.get(lower);
  }

  private static NamedFunction transform(String name, String meaning, NamedFunction.Binding binding) {
    return new NamedFunction(name, null, meaning, null, binding);
  }

  private static BoundFunction bucket(DataType[] types) {
    require(types.length == 2 && isInteger(types[0]) && Murmur3.hashes(types[1]), "bucket", types);
    return new Bucket(types[1]);
  }

  private static BoundFunction multiBucket(DataType[] types) {
    boolean hashes = types.length >= 2 && isInteger(types[0]);
    for (int index = 1; index < types.length; index++) {
      hashes = hashes && Murmur3.hashes(types[index]);
    }
    require(hashes, "multi_bucket", types);
    return new MultiBucket(List.of(types));
  }

  private static BoundFunction truncate(DataType[] types, int width) {
    int column = width < 0 ? 1 : 0;
    require(
        types.length == column + 1 && (column == 0 || isInteger(types[0])) && Truncate.takes(types[column]),
        "truncate",
        types);
    return new Truncate(types[column], width);
  }

  private static DataType only(String name, DataType[] types, Period period) {
    boolean isTime = types.length == 1 && (types[0] instanceof TimestampType || types[0] instanceof TimestampNTZType);
    boolean isDate = types.length == 1 && types[0] instanceof DateType && period != Period.HOUR;
    require(isTime || isDate, name, types);
    return types[0];
  }

  private static void require(boolean fits, String name, DataType[] types) {
    if (!fits) {
      throw new UnsupportedOperationException(name + " does not take arguments of types " + Arrays.toString(types));
    }
  }

  private static boolean isInteger(DataType type) {
    return type instanceof IntegerType || type instanceof ShortType || type instanceof ByteType;
  }

  /** {@code abs(murmur3(column)) % buckets}. */
  private record Bucket(DataType type) implements ScalarFunction<Integer>, ReducibleFunction<Integer, Integer> {
    @Override
    public DataType[] inputTypes() {
      return new DataType[] {DataTypes.IntegerType, type};
    }

    @Override
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    @Override
    public String name() {
      return "bucket";
    }

    @Override
    public String canonicalName() {
      return "io.lancespark.bucket(" + type.catalogString() + ")";
    }

    @Override
    public Integer produceResult(InternalRow row) {
      return row.isNullAt(1) ? null : Murmur3.bucket(Murmur3.hash(Murmur3.bytes(row, 1, type)), row.getInt(0));
    }

    @Override
    public Reducer<Integer, Integer> reducer(int own, ReducibleFunction<?, ?> other, int others) {
      if (!(other instanceof Bucket)) {
        return null;
      }
      int common = greatestCommonDivisor(own, others);
      return common == own || common == 1 ? null : new Modulo(common);
    }

    private static int greatestCommonDivisor(int one, int other) {
      return other == 0 ? one : greatestCommonDivisor(other, one % other);
    }
  }

  private record Modulo(int divisor) implements Reducer<Integer, Integer>, Serializable {
    @Override
    public Integer reduce(Integer bucket) {
      return bucket == null ? null : bucket % divisor;
    }

    // Without @Override, as the next one: Spark 4.0 and 4.1 have neither.
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    public String displayName() {
      return "modulo " + divisor;
    }
  }

  /** The bucket of the concatenated bytes of several columns, nulls skipped; null if all are null. */
  private record MultiBucket(List<DataType> types) implements ScalarFunction<Integer> {
    @Override
    public DataType[] inputTypes() {
      DataType[] inputs = types.toArray(new DataType[0]);
      inputs[0] = DataTypes.IntegerType;
      return inputs;
    }

    @Override
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    @Override
    public String name() {
      return "multi_bucket";
    }

    @Override
    public String canonicalName() {
      return "io.lancespark.multi_bucket(" + types.subList(1, types.size()) + ")";
    }

    @Override
    public Integer produceResult(InternalRow row) {
      java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
      boolean any = false;
      for (int index = 1; index < types.size(); index++) {
        if (!row.isNullAt(index)) {
          any = true;
          bytes.writeBytes(Murmur3.bytes(row, index, types.get(index)));
        }
      }
      return any ? Murmur3.bucket(Murmur3.hash(bytes.toByteArray()), row.getInt(0)) : null;
    }
  }

  /** The first characters of a string, or a number rounded toward zero to a multiple of the width. */
  private record Truncate(DataType type, int width) implements ScalarFunction<Object> {
    static boolean takes(DataType type) {
      return type instanceof StringType
          || type instanceof DecimalType
          || type instanceof LongType
          || isInteger(type);
    }

    private int column() {
      return width < 0 ? 1 : 0;
    }

    @Override
    public DataType[] inputTypes() {
      return width < 0 ? new DataType[] {DataTypes.IntegerType, type} : new DataType[] {type};
    }

    @Override
    public DataType resultType() {
      return type;
    }

    @Override
    public String name() {
      return width < 0 ? "truncate" : "truncate_" + width;
    }

    @Override
    public String canonicalName() {
      return "io.lancespark." + name() + "(" + type.catalogString() + ")";
    }

    @Override
    public Object produceResult(InternalRow row) {
      int at = column();
      if (row.isNullAt(at)) {
        return null;
      }
      int length = width < 0 ? row.getInt(0) : width;
      if (type instanceof StringType) {
        return row.getUTF8String(at).substring(0, length);
      } else if (type instanceof DecimalType decimal) {
        BigDecimal value = row.getDecimal(at, decimal.precision(), decimal.scale()).toJavaBigDecimal();
        BigDecimal rest = value.remainder(BigDecimal.valueOf(length));
        return Decimal.apply(value.subtract(rest), decimal.precision(), decimal.scale());
      } else if (type instanceof LongType) {
        return row.getLong(at) - row.getLong(at) % length;
      } else if (type instanceof IntegerType) {
        return row.getInt(at) - row.getInt(at) % length;
      } else if (type instanceof ShortType) {
        return (short) (row.getShort(at) - row.getShort(at) % length);
      }
      return (byte) (row.getByte(at) - row.getByte(at) % length);
    }
  }

  /** Levels of the time hierarchy. */
  private enum Period {
    YEAR,
    MONTH,
    DAY,
    HOUR;

    String singular() {
      return name().toLowerCase(Locale.ROOT);
    }

    String plural() {
      return singular() + "s";
    }
  }

  private static final long MICROS_PER_HOUR = 3_600_000_000L;

  /** Hours since 1970 of a date or timestamp; timestamps with a zone in UTC, others in local time. */
  private static long hours(InternalRow row, DataType type) {
    return type instanceof DateType ? row.getInt(0) * 24L : Math.floorDiv(row.getLong(0), MICROS_PER_HOUR);
  }

  /** Complete periods since 1970: one number for year, month, day and hour together. */
  private record PeriodSinceEpoch(Period period, DataType type)
      implements ScalarFunction<Integer>, ReducibleFunction<Integer, Integer> {
    @Override
    public DataType[] inputTypes() {
      return new DataType[] {type};
    }

    @Override
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    @Override
    public String name() {
      return period.plural();
    }

    @Override
    public String canonicalName() {
      return "io.lancespark." + name();
    }

    @Override
    public Integer produceResult(InternalRow row) {
      return row.isNullAt(0) ? null : PeriodReducer.of(Period.HOUR, period, hours(row, type));
    }

    @Override
    public Reducer<Integer, Integer> reducer(ReducibleFunction<?, ?> other) {
      boolean coarsens = other instanceof PeriodSinceEpoch that && that.period.compareTo(period) < 0;
      return coarsens ? new PeriodReducer(period, ((PeriodSinceEpoch) other).period) : null;
    }
  }

  private record PeriodReducer(Period from, Period to) implements Reducer<Integer, Integer>, Serializable {
    static int of(Period from, Period to, long value) {
      if (from == to) {
        return Math.toIntExact(value);
      }
      return switch (from) {
        case HOUR -> of(Period.DAY, to, Math.floorDiv(value, 24L));
        case DAY -> {
          LocalDate date = LocalDate.ofEpochDay(value);
          yield of(Period.MONTH, to, (date.getYear() - 1970L) * 12 + date.getMonthValue() - 1);
        }
        default -> of(Period.YEAR, to, Math.floorDiv(value, 12L));
      };
    }

    @Override
    public Integer reduce(Integer value) {
      return value == null ? null : of(from, to, value);
    }

    // Without @Override, as the next one: Spark 4.0 and 4.1 have neither.
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    public String displayName() {
      return from.plural() + " to " + to.plural();
    }
  }

  /** A date part: year, month of year, day of month or hour of day. */
  private record DatePart(Period period, DataType type) implements ScalarFunction<Integer> {
    @Override
    public DataType[] inputTypes() {
      return new DataType[] {type};
    }

    @Override
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    @Override
    public String name() {
      return period.singular();
    }

    @Override
    public String canonicalName() {
      return "io.lancespark." + name();
    }

    @Override
    public Integer produceResult(InternalRow row) {
      if (row.isNullAt(0)) {
        return null;
      }
      long hours = hours(row, type);
      LocalDate date = LocalDate.ofEpochDay(Math.floorDiv(hours, 24L));
      return switch (period) {
        case YEAR -> date.getYear();
        case MONTH -> date.getMonthValue();
        case DAY -> date.getDayOfMonth();
        case HOUR -> (int) Math.floorMod(hours, 24L);
      };
    }
  }
}
