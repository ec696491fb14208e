package io.lancespark.write;

import io.lancespark.compat.SessionConf;
import java.util.List;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Column name matching as in Spark: case-insensitive unless the session is case-sensitive. */
public final class LanceColumnNames {
  private LanceColumnNames() {}

  /** The columns of {@code written}, spelled as in {@code table} where it has them; struct fields too. */
  public static StructType asIn(StructType table, StructType written) {
    return SessionConf.isCaseSensitive() ? written : (StructType) renamed(table, written);
  }

  private static DataType renamed(DataType table, DataType written) {
    if (table instanceof StructType columns && written instanceof StructType rows) {
      StructField[] fields = new StructField[rows.size()];
      for (int index = 0; index < fields.length; index++) {
        StructField field = rows.fields()[index];
        StructField match = match(columns, field.name());
        fields[index] = match == null ? field : renamed(match, field);
      }
      return new StructType(fields);
    }
    if (table instanceof ArrayType old && written instanceof ArrayType array) {
      return new ArrayType(renamed(old.elementType(), array.elementType()), array.containsNull());
    }
    if (table instanceof MapType old && written instanceof MapType map) {
      DataType key = renamed(old.keyType(), map.keyType());
      return new MapType(key, renamed(old.valueType(), map.valueType()), map.valueContainsNull());
    }
    return written;
  }

  private static StructField renamed(StructField match, StructField field) {
    return new StructField(match.name(), renamed(match.dataType(), field.dataType()), field.nullable(), field.metadata());
  }

  /** The column with exactly this name, else the only case-insensitive match; null if there is none. */
  private static StructField match(StructType table, String name) {
    List<StructField> alike = List.of(table.fields()).stream().filter(item -> item.name().equalsIgnoreCase(name)).toList();
    for (StructField item : alike) {
      if (item.name().equals(name)) {
        return item;
      }
    }
    return alike.size() == 1 ? alike.get(0) : null;
  }
}
