package io.lancespark.compat;

import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.catalyst.util.GeneratedColumn;
import org.apache.spark.sql.catalyst.util.IdentityColumn;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Schemas with what Spark keeps in the metadata of their fields. */
public final class Types {
  private Types() {}

  /** The schema with CHAR and VARCHAR, which Spark replaces with STRING outside of catalogs. */
  public static StructType declared(StructType schema) {
    return CharVarcharUtils.getRawSchema(schema);
  }

  public static boolean hasCharOrVarchar(DataType type) {
    return CharVarcharUtils.hasCharVarchar(type);
  }

  /** The field with STRING in place of CHAR and VARCHAR. */
  public static StructField withStrings(StructField field) {
    return CharVarcharUtils.replaceCharVarcharWithStringInSchema(new StructType(new StructField[] {field})).fields()[0];
  }

  /** Columns with the comments of their fields. */
  public static Column[] columns(StructType schema) {
    Column[] columns = new Column[schema.size()];
    for (int index = 0; index < columns.length; index++) {
      StructField field = schema.fields()[index];
      String comment = field.getComment().isDefined() ? field.getComment().get() : null;
      columns[index] = Column.create(field.name(), field.dataType(), field.nullable(), comment, (String) null);
    }
    return columns;
  }

  /** The schema of columns, with defaults, generation expressions and comments in the metadata of its fields. */
  public static StructType ofColumns(Column[] columns) {
    StructField[] fields = CatalogV2Util.v2ColumnsToStructType(columns).fields().clone();
    for (int index = 0; index < columns.length; index++) {
      if (columns[index].generationExpression() != null) {
        fields[index] = withGeneration(fields[index], columns[index].generationExpression());
      }
    }
    return new StructType(fields);
  }

  /** The field with an expression, which Spark leaves out of schemas before 4.3. */
  private static StructField withGeneration(StructField field, String expression) {
    MetadataBuilder metadata = new MetadataBuilder().withMetadata(field.metadata());
    metadata.putString(GeneratedColumn.GENERATION_EXPRESSION_METADATA_KEY(), expression);
    return new StructField(field.name(), field.dataType(), field.nullable(), metadata.build());
  }

  /** The schema of columns as statements declare it, for SHOW CREATE TABLE. */
  public static StructType shown(Column[] columns) {
    return Shims.shown(declared(ofColumns(columns)));
  }

  /** The field with an identity, which Spark leaves out of schemas, in Spark's own metadata. */
  public static StructField withIdentity(StructField field, IdentityColumnSpec identity) {
    MetadataBuilder metadata = new MetadataBuilder().withMetadata(field.metadata());
    metadata.putLong(IdentityColumn.IDENTITY_INFO_START(), identity.getStart());
    metadata.putLong(IdentityColumn.IDENTITY_INFO_STEP(), identity.getStep());
    metadata.putBoolean(IdentityColumn.IDENTITY_INFO_ALLOW_EXPLICIT_INSERT(), identity.isAllowExplicitInsert());
    return new StructField(field.name(), field.dataType(), field.nullable(), metadata.build());
  }

  /** Whether the field is of a generated column or an identity column. */
  static boolean isComputed(StructField field) {
    return field.metadata().contains(GeneratedColumn.GENERATION_EXPRESSION_METADATA_KEY())
        || field.metadata().contains(IdentityColumn.IDENTITY_INFO_START());
  }
}
