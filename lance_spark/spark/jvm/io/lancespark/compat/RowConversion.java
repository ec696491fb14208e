package io.lancespark.compat;

import java.io.Serializable;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Rows of a streaming query in the columns of the table.
 *
 * <p>Spark hands a streaming sink the rows as the query has them. Here they are matched by name, cast or refused by the
 * rules of an INSERT, which are Spark's own.
 */
public final class RowConversion implements Serializable {
  private static final long serialVersionUID = 1L;

  private final StructType columns;
  private final Seq<Expression> values;
  private final Seq<Attribute> input;
  private final boolean keepsColumns;

  private RowConversion(
      StructType columns, Seq<Expression> values, Seq<Attribute> input, boolean keepsColumns) {
    this.columns = columns;
    this.values = values;
    this.input = input;
    this.keepsColumns = keepsColumns;
  }

  /**
   * The conversion of rows with the columns {@code rows} for a table with the columns {@code tableColumns}.
   *
   * @param mergesSchema whether the table gets columns that only the rows have
   * @throws org.apache.spark.sql.AnalysisException (unchecked) if an INSERT of the rows would be refused
   */
  @SuppressWarnings("unchecked")
  public static RowConversion of(String table, StructType rows, StructType tableColumns, boolean mergesSchema) {
    StructType columns = mergesSchema ? merged(tableColumns, rows) : tableColumns;
    Seq<Attribute> input = (Seq<Attribute>) (Seq<?>) DataTypeUtils$.MODULE$.toAttributes(rows);
    Seq<Attribute> expected = (Seq<Attribute>) (Seq<?>) DataTypeUtils$.MODULE$.toAttributes(columns);
    Seq<InternalRow> none = (Seq<InternalRow>) (Seq<?>) scala.collection.immutable.Nil$.MODULE$;
    LogicalPlan query = new LocalRelation(input, none, false, Option.empty());
    LogicalPlan resolved = Shims.resolvedOutput(table, expected, query);
    Seq<Expression> values =
        resolved instanceof Project project ? (Seq<Expression>) (Seq<?>) project.projectList() : null;
    return new RowConversion(columns, values, input, hasAll(rows, columns));
  }

  private static boolean hasAll(StructType rows, StructType columns) {
    for (StructField column : columns.fields()) {
      Option<Object> place = rows.getFieldIndex(column.name());
      if (place.isEmpty() || !rows.fields()[(Integer) place.get()].dataType().equals(column.dataType())) {
        return false;
      }
    }
    return true;
  }

  private static StructType merged(StructType tableColumns, StructType rows) {
    boolean exact = SessionConf.isCaseSensitive();
    Set<String> names = new HashSet<>();
    for (String name : tableColumns.fieldNames()) {
      names.add(exact ? name : name.toLowerCase(Locale.ROOT));
    }
    StructType columns = tableColumns;
    for (StructField field : rows.fields()) {
      if (!names.contains(exact ? field.name() : field.name().toLowerCase(Locale.ROOT))) {
        columns = columns.add(field.name(), field.dataType(), true, field.metadata());
      }
    }
    return columns;
  }

  /** The columns of the converted rows. */
  public StructType columns() {
    return columns;
  }

  /** Whether rows are not already as the table has them. */
  public boolean changesRows() {
    return values != null;
  }

  /** Whether the rows had all columns of the table already, by name and type. */
  public boolean keepsColumns() {
    return keepsColumns;
  }

  /** The converted rows; each is valid until the next one is asked for. */
  public Iterator<InternalRow> convert(Iterator<InternalRow> rows) {
    UnsafeProjection projection = UnsafeProjection$.MODULE$.create(values, input);
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return rows.hasNext();
      }

      @Override
      public InternalRow next() {
        return projection.apply(rows.next());
      }
    };
  }
}
