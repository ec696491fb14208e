package io.lancespark.functions;

import io.lancespark.python.BlobMark;
import io.lancespark.python.LanceException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
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
  /** One array for all, by which functions are equal. */
  private static final byte[] MARK = BlobMark.bytes();

  private static final String MEANING =
      "(uri[, offset, length]) - the object at a URI, or a part of it, as value of a blob column: INSERT ";

  static final List<NamedFunction> ALL =
      List.of(
          NamedFunction.of("blob_uri", "misc_funcs", MEANING + "stores a reference to it", types -> bind("blob_uri", types)),
          NamedFunction.of(
              "blob_ingest", "misc_funcs", MEANING + "copies its bytes, in tasks", types -> bind("blob_ingest", types)));

  private LanceBlobUri() {}

  private static Bound bind(String name, DataType[] types) {
    boolean fits = types.length == 1 || types.length == 3;
    for (int place = 0; place < types.length && fits; place++) {
      fits = types[place] instanceof NullType || (place == 0 ? types[0] instanceof StringType : isWhole(types[place]));
    }
    DataType[] inputs = {DataTypes.StringType, DataTypes.LongType, DataTypes.LongType};
    return fits ? new Bound(name, List.of(Arrays.copyOf(inputs, types.length)), MARK) : null;
  }

  private static boolean isWhole(DataType type) {
    return type instanceof LongType || type instanceof IntegerType || type instanceof ShortType || type instanceof ByteType;
  }

  /** The mark comes with the function: executors have another one. */
  private record Bound(String name, List<DataType> types, byte[] mark) implements TypedFunction<byte[]> {
    @Override
    public DataType resultType() {
      return DataTypes.BinaryType;
    }

    /** As plans show it. */
    @Override
    public String toString() {
      return name;
    }

    @Override
    public byte[] produceResult(InternalRow row) {
      if (TypedFunction.hasNull(row, types.size())) {
        return null;
      }
      long offset = types.size() == 1 ? 0 : row.getLong(1);
      long length = types.size() == 1 ? -1 : row.getLong(2);
      if (offset < 0 || (types.size() == 3 && length < 1)) {
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
