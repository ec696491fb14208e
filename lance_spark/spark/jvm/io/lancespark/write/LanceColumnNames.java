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

  /** The columns of {@code given}, spelled as in {@code known} where it has them; struct fields too. */
  public static StructType asIn(StructType known, StructType given) {
    return SessionConf.isCaseSensitive() ? given : (StructType) renamed(known, given);
  }

  private static DataType renamed(DataType known, DataType given) {
    if (known instanceof StructType columns && given instanceof StructType rows) {
      StructField[] fields = new StructField[rows.size()];
      for (int index = 0; index < fields.length; index++) {
        StructField field = rows.fields()[index];
        StructField match = match(columns, field.name());
        fields[index] = match == null ? field : renamed(match, field);
      }
      return new StructType(fields);
    }
    if (known instanceof ArrayType old && given instanceof ArrayType array) {
      return new ArrayType(renamed(old.elementType(), array.elementType()), array.containsNull());
    }
    if (known instanceof MapType old && given instanceof MapType map) {
      DataType key = renamed(old.keyType(), map.keyType());
      return new MapType(key, renamed(old.valueType(), map.valueType()), map.valueContainsNull());
    }
    return given;
  }

  private static StructField renamed(StructField match, StructField field) {
    return new StructField(match.name(), renamed(match.dataType(), field.dataType()), field.nullable(), field.metadata());
  }

  /** The column with exactly this name, else the only case-insensitive match; null if there is none. */
  private static StructField match(StructType known, String name) {
    List<StructField> alike = List.of(known.fields()).stream().filter(item -> item.name().equalsIgnoreCase(name)).toList();
    for (StructField item : alike) {
      if (item.name().equals(name)) {
        return item;
      }
    }
    return alike.size() == 1 ? alike.get(0) : null;
  }
}
