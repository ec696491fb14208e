package io.lancespark.compat.analysis;

import io.lancespark.compat.Catalyst;
import io.lancespark.python.LanceException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.StructType;

/**
 * {@code lance_read_blob(column[, offset, length])}: the bytes of a blob column, as BINARY.
 *
 * <p>It becomes the metadata column with the bytes, so that tasks read them, after the filters, and only where they are
 * used. Row by row in the JVM each value would be a request.
 */
public final class LanceReadBlob {
  public static final String NAME = "lance_read_blob";
  public static final String USAGE =
      "_FUNC_(column[, offset, length]) - The bytes of a blob column of a Lance table, or a part of them, as BINARY.";

  /** As in {@code lance_spark/spark/blobs/columns.py}. */
  private static final String SUFFIX = "__blob_bytes";

  private LanceReadBlob() {}

  /** The expression of a call, whose arguments are resolved. */
  public static Expression of(List<Expression> arguments) {
    if (arguments.size() != 1 && arguments.size() != 3) {
      throw LanceException.invalid(NAME + " takes a blob column, or a blob column, an offset and a length");
    }
    Expression bytes = bytes(arguments.get(0));
    if (arguments.size() == 1) {
      return bytes;
    }
    String offset = "CAST(" + arguments.get(1).sql() + " AS INT)";
    String length = "CAST(" + arguments.get(2).sql() + " AS INT)";
    String refused = "raise_error('" + NAME + " takes an offset and a length of 0 or more')";
    return CatalystSqlParser$.MODULE$.parseExpression(
        "substring(" + bytes.sql() + ", if(" + offset + " < 0 OR " + length + " < 0, CAST(" + refused + " AS INT), "
            + offset + " + 1), " + length + ")");
  }

  private static Expression bytes(Expression blob) {
    if (blob instanceof AttributeReference column) {
      if (column.dataType() instanceof BinaryType) {
        return column;
      }
      if (column.dataType() instanceof StructType type && List.of(type.fieldNames()).contains("blob_id")) {
        List<String> name = new ArrayList<>(Catalyst.list(column.qualifier()));
        name.add(column.name() + SUFFIX);
        return new UnresolvedAttribute(Catalyst.seq(name));
      }
    }
    throw LanceException.invalid(NAME + " takes a blob column of a Lance table, not " + blob.sql());
  }
}
