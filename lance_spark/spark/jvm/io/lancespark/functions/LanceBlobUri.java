package io.lancespark.functions;

import io.lancespark.python.LanceException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;

/**
 * {@code blob_uri(uri[, offset, length])} and {@code blob_ingest(...)}: what INSERT into a blob column takes for an object,
 * or a part of it, that it refers to or copies.
 *
 * <p>The result is BINARY: a mark, then offset, length and URI ({@code lance_spark/spark/blobs/references.py}). The mark is
 * random in each driver and known to the tasks of its writes only, so no bytes of anybody's data can be taken for a
 * reference.
 */
public final class LanceBlobUri {
  public static final List<String> NAMES = List.of("blob_uri", "blob_ingest");
  private static final byte[] MARK = new byte[16];
  private static final byte[] KEY = new byte[32];

  static {
    SecureRandom random = new SecureRandom();
    random.nextBytes(MARK);
    random.nextBytes(KEY);
  }

  private LanceBlobUri() {}

  /** The mark of this driver, in base64. */
  public static String mark() {
    return Base64.getEncoder().encodeToString(MARK);
  }

  /** By which this driver's tasks sign where described blobs are, in base64. Unlike the mark it is in no value. */
  public static String key() {
    return Base64.getEncoder().encodeToString(KEY);
  }

  /** How a function is called. */
  public static String usage(String name) {
    String effect = name.equals("blob_uri") ? "stores a reference to it" : "copies its bytes, in tasks";
    return name + "(uri[, offset, length]) - the object at a URI, or a part of it, as value of a blob column: INSERT "
        + effect;
  }

  /** The function with this name in lower case, or null. */
  static UnboundFunction find(String name) {
    return NAMES.contains(name) ? new NamedFunction(name, usage(name), types -> bind(name, types)) : null;
  }

  /** The function for arguments of these types. */
  public static ScalarFunction<byte[]> bind(String name, DataType[] types) {
    boolean fits = types.length == 1 || types.length == 3;
    for (int place = 0; place < types.length && fits; place++) {
      fits = types[place] instanceof NullType || (place == 0 ? types[0] instanceof StringType : isWhole(types[place]));
    }
    if (!fits) {
      throw LanceException.invalid(
          name + " does not take arguments of types " + Arrays.toString(types) + "; use it as " + usage(name));
    }
    return new Bound(name, types.length, MARK);
  }

  private static boolean isWhole(DataType type) {
    return type instanceof LongType || type instanceof IntegerType || type instanceof ShortType || type instanceof ByteType;
  }

  /** The mark comes with the function: executors have another one. */
  private record Bound(String name, int arguments, byte[] mark) implements ScalarFunction<byte[]> {
    @Override
    public DataType[] inputTypes() {
      DataType[] all = {DataTypes.StringType, DataTypes.LongType, DataTypes.LongType};
      return Arrays.copyOf(all, arguments);
    }

    @Override
    public DataType resultType() {
      return DataTypes.BinaryType;
    }

    @Override
    public String canonicalName() {
      return "io.lancespark." + name;
    }

    /** As plans show it. */
    @Override
    public String toString() {
      return name;
    }

    @Override
    public byte[] produceResult(InternalRow row) {
      if (NamedFunction.hasNull(row, arguments)) {
        return null;
      }
      long offset = arguments == 1 ? 0 : row.getLong(1);
      long length = arguments == 1 ? -1 : row.getLong(2);
      if (offset < 0 || (arguments == 3 && length < 1)) {
        throw LanceException.invalidInTask(
            name + " takes an offset of 0 or more and a length of 1 or more, not " + offset + " and " + length);
      }
      byte[] uri = row.getUTF8String(0).toString().getBytes(StandardCharsets.UTF_8);
      ByteBuffer result = ByteBuffer.allocate(mark.length + 1 + 2 * Long.BYTES + uri.length);
      result.put(mark).put((byte) (name.equals("blob_ingest") ? 1 : 0)).putLong(offset).putLong(length).put(uri);
      return result.array();
    }
  }
}
