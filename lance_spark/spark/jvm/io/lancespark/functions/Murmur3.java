package io.lancespark.functions;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;

/**
 * The murmur3 function of the partitioning specification: x86, 32 bits, seed 0. Values are encoded to bytes as in
 * {@code lance_spark.partitioned.values.hashing}; the same test vectors check both.
 */
public final class Murmur3 {
  private static final int C1 = 0xcc9e2d51;
  private static final int C2 = 0x1b873593;
  private static final BigInteger MIN_LONG = BigInteger.valueOf(Long.MIN_VALUE);
  private static final BigInteger MAX_LONG = BigInteger.valueOf(Long.MAX_VALUE);

  private Murmur3() {}

  /** Whether values of this type can be hashed. */
  static boolean hashes(DataType type) {
    return type instanceof StringType
        || type instanceof BinaryType
        || type instanceof DecimalType
        || type instanceof DoubleType
        || type instanceof FloatType
        || isWhole(type);
  }

  /** Types that Spark's rows store as integers: integers, booleans, dates, times, timestamps. */
  private static boolean isWhole(DataType type) {
    return type instanceof BooleanType
        || type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof DateType
        || java.util.Set.of("bigint", "timestamp", "timestamp_ntz").contains(type.typeName())
        || type.typeName().equals("long")
        || isTime(type)
        || type.typeName().startsWith("interval day")
        || type.typeName().startsWith("interval hour")
        || type.typeName().startsWith("interval minute")
        || type.typeName().startsWith("interval second");
  }

  private static boolean isTime(DataType type) {
    return type.typeName().startsWith("time(");
  }

  /** The bytes to hash for a non-null value. */
  static byte[] bytes(InternalRow row, int ordinal, DataType type) {
    if (type instanceof StringType) {
      return row.getUTF8String(ordinal).getBytes();
    } else if (type instanceof BinaryType) {
      return row.getBinary(ordinal);
    } else if (type instanceof DecimalType decimal) {
      return bytes(row.getDecimal(ordinal, decimal.precision(), decimal.scale()).toJavaBigDecimal());
    } else if (type instanceof DoubleType) {
      return bytes(row.getDouble(ordinal));
    } else if (type instanceof FloatType) {
      return bytes((double) row.getFloat(ordinal));
    } else if (type instanceof BooleanType) {
      return bytes(row.getBoolean(ordinal) ? 1L : 0L);
    } else if (type instanceof ByteType) {
      return bytes((long) row.getByte(ordinal));
    } else if (type instanceof ShortType) {
      return bytes((long) row.getShort(ordinal));
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return bytes((long) row.getInt(ordinal));
    } else if (isTime(type)) {
      // Spark stores nanoseconds; microseconds are hashed.
      return bytes(Math.floorDiv(row.getLong(ordinal), 1000L));
    }
    return bytes(row.getLong(ordinal));
  }

  private static byte[] bytes(long value) {
    return ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array();
  }

  private static byte[] bytes(double value) {
    // Normalizes -0.0 to 0.0 and all NaNs to one.
    return bytes(Double.doubleToLongBits(value + 0.0));
  }

  private static byte[] bytes(BigDecimal value) {
    BigDecimal shortest = value.signum() == 0 ? BigDecimal.ZERO : value.stripTrailingZeros();
    BigInteger whole = shortest.scale() < 0 ? shortest.setScale(0).unscaledValue() : shortest.unscaledValue();
    if (whole.compareTo(MIN_LONG) >= 0 && whole.compareTo(MAX_LONG) <= 0) {
      return bytes(whole.longValue());
    }
    byte[] bytes = new byte[16];
    java.util.Arrays.fill(bytes, (byte) (whole.signum() < 0 ? -1 : 0));
    byte[] reversed = whole.toByteArray();
    for (int index = 0; index < reversed.length; index++) {
      bytes[index] = reversed[reversed.length - 1 - index];
    }
    return bytes;
  }

  /** The murmur3 hash of these bytes. */
  static int hash(byte[] data) {
    ByteBuffer words = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
    int hash = 0;
    while (words.remaining() >= Integer.BYTES) {
      hash = Integer.rotateLeft(hash ^ scrambled(words.getInt()), 13) * 5 + 0xe6546b64;
    }
    int tail = 0;
    for (int shift = 0; words.hasRemaining(); shift += 8) {
      tail |= (words.get() & 0xff) << shift;
    }
    hash ^= scrambled(tail);
    hash ^= data.length;
    hash = (hash ^ (hash >>> 16)) * 0x85ebca6b;
    hash = (hash ^ (hash >>> 13)) * 0xc2b2ae35;
    return hash ^ (hash >>> 16);
  }

  private static int scrambled(int word) {
    return Integer.rotateLeft(word * C1, 15) * C2;
  }

  /** {@code abs(hash) % buckets}, with abs in 64 bits. */
  static int bucket(int hash, int buckets) {
    return (int) (Math.abs((long) hash) % buckets);
  }
}
