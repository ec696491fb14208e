"""Maps between the Arrow types of a table and the types of Spark (the table is in docs/reference/types.md).

Spark has no unsigned integers, half floats, dictionaries, fixed-size lists or units other than microseconds. Reads map
them to the next type that holds their values; writes to an existing column map back, so that a column keeps its type
however often Spark rewrites it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkTypeError
from pyspark.sql import types as st

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.schema.blob import BLOB_KEY
from lance_spark.schema.extension import is_json_field
from lance_spark.schema.generated import GENERATED, IDENTITY
from lance_spark.schema.text_type import COLLATION, TEXT_TYPE
from lance_spark.spark.compat import SPARK_NAME
from lance_spark.spark.compat.types import TIME, worker_schema
from lance_spark.spark.types.collations import collation_metadata, with_collation_of, without_collations
from lance_spark.spark.types.column_properties import Properties, apply
from lance_spark.spark.types.defaults import CURRENT_DEFAULT, DEFAULT, checked_default, default_of
from lance_spark.spark.types.descriptions import with_blob_columns
from lance_spark.spark.types.generated import GENERATION_EXPRESSION, checked_generation
from lance_spark.spark.types.geometry import (
    check_geo_type,
    check_same_geo,
    geo_metadata,
    geo_type,
    is_geo_type,
    stored_geo_field,
)
from lance_spark.spark.types.identities import new_identity
from lance_spark.spark.types.intervals import (
    ANY_INTERVAL,
    INTERVAL,
    interval_metadata,
    interval_of,
    with_any_units,
    with_months,
    year_month_of,
)
from lance_spark.spark.types.json_columns import is_written_as_json
from lance_spark.spark.types.ml_vectors import UDT, ml_name, ml_type
from lance_spark.spark.types.texts import SPARK_TEXT_TYPE, declared_type, has_text_types, with_text_type_of
from lance_spark.spark.types.uuids import is_uuid_field
from lance_spark.spark.types.variants import VARIANT_METADATA, is_variant_field, stored_variant_field
from lance_spark.table.writing.conform import is_blob_type

_MAX_PRECISION = 38
_KINDS = (COLLATION, INTERVAL, TEXT_TYPE, UDT)

_SIMPLE: dict[pa.DataType, st.DataType] = {
    pa.null(): st.NullType(),
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
    pa.float16(): st.FloatType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.large_string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.large_binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.date64(): st.DateType(),
}


def to_spark_schema(schema: pa.Schema) -> st.StructType:
    """The Spark schema of a table's columns; lengths of CHAR and VARCHAR are in the metadata, as Spark keeps them.

    Raises:
        UnsupportedFeatureError: Spark has no type for a column; the message names it.
    """
    return st.StructType([_spark_field(field, "") for field in schema])


def _spark_field(field: pa.Field, path: str) -> st.StructField:
    comment = (field.metadata or {}).get(b"comment")
    metadata = {} if comment is None else {"comment": comment.decode("utf-8", "replace")}
    spark = _type_of(field, f"{path}{field.name}")
    if not path and has_text_types(field):
        metadata[SPARK_TEXT_TYPE] = declared_type(field, spark)
    default = None if path else default_of(field.name, field.metadata)
    if default is not None:
        metadata[CURRENT_DEFAULT] = default
    return st.StructField(field.name, spark, field.nullable, metadata)


def _type_of(field: pa.Field, path: str) -> st.DataType:
    geo = geo_type(field)
    if geo is not None:
        return geo
    if is_variant_field(field) or is_json_field(field):
        return st.VariantType()
    months = year_month_of(field)
    if months is not None:
        return months
    found = with_collation_of(field, _spark_type(field.type, path, interval_of(field)), path)
    return ml_type((field.metadata or {}).get(UDT), found)


def _spark_type(dtype: pa.DataType, path: str, interval: st.DayTimeIntervalType = ANY_INTERVAL) -> st.DataType:
    """Spark's type of `dtype`; `interval` for a duration."""
    if dtype in _SIMPLE:
        return _SIMPLE[dtype]
    if pt.is_dictionary(dtype):
        return _spark_type(dtype.value_type, path, interval)
    if pt.is_decimal(dtype) and dtype.precision <= _MAX_PRECISION and 0 <= dtype.scale <= dtype.precision:
        return st.DecimalType(dtype.precision, dtype.scale)
    if pt.is_timestamp(dtype):
        return st.TimestampNTZType() if dtype.tz is None else st.TimestampType()
    if pt.is_duration(dtype):
        return interval
    if pt.is_time(dtype) and TIME is not None:
        return TIME
    if pt.is_fixed_size_binary(dtype):
        return st.BinaryType()
    return _spark_nested_type(dtype, path)


def _spark_nested_type(dtype: pa.DataType, path: str) -> st.DataType:
    if pt.is_struct(dtype):
        return st.StructType([_spark_field(child, f"{path}.") for child in dtype])
    if pt.is_map(dtype):
        key, value = dtype.key_field, dtype.item_field
        return st.MapType(_type_of(key, f"{path}.key"), _type_of(value, f"{path}.value"), value.nullable)
    if pt.is_list(dtype) or pt.is_large_list(dtype) or pt.is_fixed_size_list(dtype):
        return st.ArrayType(_type_of(dtype.value_field, f"{path}.item"), dtype.value_field.nullable)
    raise UnsupportedFeatureError(
        f"column {path} has type {dtype}, which {SPARK_NAME} does not have; choose other columns by option 'columns'",
        feature=f"type {dtype} in Spark",
    )


def written_schema(columns: st.StructType) -> pa.Schema:
    """The Arrow schema in which Spark sends rows of `columns` to write.

    The lengths of CHAR and VARCHAR, collations, the units of an interval, the name of a type of pyspark.ml, and
    the reference system of a GEOMETRY are in the metadata of the field.

    Raises:
        UnsupportedFeatureError: Lance has no counterpart for the type of a column; the message names it.
    """
    fields = [
        st.StructField(field.name, _stored_type(field.dataType, field.name), field.nullable) for field in columns.fields
    ]
    stored = st.StructType(fields)
    pairs = zip(exchanged_schema(stored), columns.fields, strict=True)
    return pa.schema([_with_values(with_spark_types(field, spark), spark) for field, spark in pairs])


def _with_values(field: pa.Field, spark: st.StructField) -> pa.Field:
    """`field` with the DEFAULT, the expression or the identity of the column."""
    default, generation = spark.metadata.get(CURRENT_DEFAULT), spark.metadata.get(GENERATION_EXPRESSION)
    identity = new_identity(spark)
    entries = dict(field.metadata or {})
    if default is not None:
        entries[DEFAULT] = checked_default(spark.name, default).encode()
    if generation is not None:
        entries[GENERATED.encode()] = checked_generation(spark.name, generation).encode()
    if identity is not None:
        entries[IDENTITY.encode()] = identity.to_bytes()
    return field.with_metadata(entries) if default or generation or identity else field


def with_spark_types(field: pa.Field, spark: st.StructField) -> pa.Field:
    """`field`, a column of type `spark`, with what Arrow's type does not have in its metadata, including nested fields.

    That are the units of intervals, the lengths of CHAR and VARCHAR, collations, the names of types of pyspark.ml, the
    reference systems of GEOMETRY and GEOGRAPHY, and that a struct is a VARIANT.
    """
    dtype, kind = _with_spark_types(field.type, spark.dataType), spark.dataType
    kept = {key: value for key, value in (field.metadata or {}).items() if key not in _KINDS}
    name = ml_name(kind)
    if name is not None:
        kept[UDT] = name
    kept |= interval_metadata(kind) | collation_metadata(kind)
    if isinstance(kind, (st.CharType, st.VarcharType)):
        kept[TEXT_TYPE] = kind.simpleString().encode()
    if is_geo_type(kind):
        kept |= geo_metadata(kind)
    if isinstance(kind, st.VariantType):
        kept |= VARIANT_METADATA
    return pa.field(field.name, dtype, field.nullable, metadata=kept or None)


def _with_spark_types(dtype: pa.DataType, spark: st.DataType) -> pa.DataType:
    if isinstance(spark, st.UserDefinedType):
        return _with_spark_types(dtype, spark.sqlType())
    if isinstance(spark, st.StructType):
        return pa.struct([with_spark_types(*pair) for pair in zip(dtype, spark.fields, strict=True)])
    if isinstance(spark, st.MapType):
        key, value = st.StructField("key", spark.keyType), st.StructField("value", spark.valueType)
        return pa.map_(with_spark_types(dtype.key_field, key), with_spark_types(dtype.item_field, value))
    if isinstance(spark, st.ArrayType):
        return pa.list_(with_spark_types(dtype.value_field, st.StructField("element", spark.elementType)))
    return dtype


def exchanged_schema(columns: st.StructType) -> pa.Schema:
    """The Arrow schema in which Spark and its Python workers exchange rows of `columns`.

    Timestamps are in UTC, intervals of years and months are numbers of months.
    """
    return worker_schema(with_months(columns))


def _stored_type(dtype: st.DataType, path: str) -> st.DataType:
    if isinstance(dtype, st.StructType):
        members = [
            st.StructField(field.name, _stored_type(field.dataType, f"{path}.{field.name}"), field.nullable)
            for field in dtype.fields
        ]
        return st.StructType(members)
    if isinstance(dtype, st.ArrayType):
        element = _stored_type(dtype.elementType, f"{path}.element")
        return st.ArrayType(element, dtype.containsNull or isinstance(element, st.NullType))
    if isinstance(dtype, st.MapType) and not isinstance(dtype.keyType, st.NullType):
        key, value = _stored_type(dtype.keyType, f"{path}.key"), _stored_type(dtype.valueType, f"{path}.value")
        return st.MapType(key, value, dtype.valueContainsNull or isinstance(value, st.NullType))
    if isinstance(dtype, (st.StringType, st.CharType, st.VarcharType)):
        return st.StringType()
    if isinstance(dtype, st.UserDefinedType):
        return _stored_type(dtype.sqlType(), path)
    if is_geo_type(dtype):
        check_geo_type(dtype, path)
        return st.BinaryType()
    if isinstance(dtype, (st.VariantType, st.YearMonthIntervalType)):
        return dtype
    if not _has_counterpart(dtype):
        # The table could not preserve the type, and reads would return another one.
        raise UnsupportedFeatureError(
            f"column {path} has Spark's type {dtype.simpleString()}, which Lance does not have; cast it",
            feature=f"type {dtype.simpleString()} in Lance",
        )
    return dtype


def _has_counterpart(dtype: st.DataType) -> bool:
    if isinstance(dtype, st.MapType):
        return False  # Its keys have no type, and keys are not null.
    try:
        exchanged = exchanged_schema(st.StructType().add("value", dtype)).field(0)
    except PySparkTypeError:
        return False
    return isinstance(dtype, type(_spark_type(exchanged.type, exchanged.name)))


def is_same_for_spark(one: pa.DataType, other: pa.DataType) -> bool:
    """True if both have the same type in Spark; all intervals of days and seconds are equal here."""
    return with_any_units(_spark_type(one, "")) == with_any_units(_spark_type(other, ""))


def with_comments(schema: pa.Schema, columns: st.StructType, *, replaces: bool = False) -> pa.Schema:
    """`schema` with the comments of the columns of the same names; with `replaces` with no others."""
    comments = {field.name: field.metadata.get("comment") for field in columns.fields}
    fields = []
    for field in schema:
        comment = comments.get(field.name)
        entries = dict(field.metadata or {})
        if replaces:
            entries.pop(b"comment", None)
        if comment:
            entries[b"comment"] = comment.encode()
        fields.append(field.with_metadata(entries))
    return pa.schema(fields, metadata=schema.metadata)


def is_lossless(dtype: pa.DataType) -> bool:
    """True if Spark reads exactly the values of such a column, so that a filter means the same on both sides."""
    if pt.is_dictionary(dtype):
        return is_lossless(dtype.value_type)
    if has_nanoseconds(dtype) or pt.is_time64(dtype):
        return bool(dtype.unit != "ns")
    return all(is_lossless(dtype.field(index).type) for index in range(dtype.num_fields))


def has_nanoseconds(dtype: pa.DataType) -> bool:
    """True for timestamps and durations in nanoseconds, which Spark reads as microseconds."""
    return bool((pt.is_timestamp(dtype) or pt.is_duration(dtype)) and dtype.unit == "ns")


def table_types(
    given: pa.Schema,
    table: pa.Schema | None,
    properties: Properties | None = None,
    *,
    replaces: bool = False,
    large: bool = False,
) -> pa.Schema:
    """The types in which columns of Spark's schema `given` are written; `properties` apply to new ones.

    A column that `table` has too, with a type that Spark reads as the given one, keeps the table's type.

    Args:
        replaces: whether the columns replace those of `table`; then nested fields are as nullable as the given ones,
            and texts have the given lengths.
        large: whether new strings and binaries get 64-bit offsets, including nested ones.

    Raises:
        InvalidInputError: a property is invalid for its column, or requests another type than the table has; or the
            SRID of a column differs from that of the table; or a new column has descriptions of blobs in arrays.
    """
    given = with_blob_columns(given, table, replaces=replaces)
    plain = apply(properties or {}, pa.schema([_plain_field(field) for field in given]))
    if large:
        plain = pa.schema([field.with_type(_large(field.type)) for field in plain])
    kept = pa.schema([_table_field(field, table) for field in plain])
    if replaces:
        kept = pa.schema(
            [
                _with_values_of(
                    plain.field(i),
                    with_text_type_of(plain.field(i), field.with_type(_declared_as(plain.field(i).type, field.type))),
                )
                for i, field in enumerate(kept)
            ]
        )
    if table is not None and not replaces:
        for field in plain:
            index = table.get_field_index(field.name)
            if index >= 0:
                check_same_geo(field.name, _type_of(field, field.name), _type_of(table.field(index), field.name))
    for name in given.names:
        asked, has = plain.field(name).type, kept.field(name).type
        if name.lower() in (properties or {}) and asked != has:
            raise InvalidInputError(f"column {name} is {has} in the table; its options ask for {asked}")
    return kept


def _with_values_of(source: pa.Field, field: pa.Field) -> pa.Field:
    """`field` with the DEFAULT, the expression or the identity that `source` has."""
    keys = (DEFAULT, GENERATED.encode(), IDENTITY.encode())
    kept = {key: value for key, value in (field.metadata or {}).items() if key not in keys}
    return field.with_metadata(kept | {key: value for key, value in (source.metadata or {}).items() if key in keys})


def _plain_field(field: pa.Field) -> pa.Field:
    stored = stored_geo_field(field) or stored_variant_field(field)
    return stored or pa.field(field.name, _with_lance_names(field.type), field.nullable, metadata=field.metadata)


def _table_field(field: pa.Field, table: pa.Schema | None) -> pa.Field:
    index = -1 if table is None else table.get_field_index(field.name)
    if table is None or index < 0:
        return field
    kept = table.field(index)
    if is_blob_type(kept) and (pt.is_binary(field.type) or pt.is_large_binary(field.type)):
        sizes = {key: value for key, value in kept.metadata.items() if key.startswith(BLOB_KEY.encode())}
        return pa.field(field.name, pa.large_binary(), field.nullable, {**sizes, BLOB_KEY.encode(): b"true"})
    is_text = pt.is_string(field.type) or pt.is_large_string(field.type)
    if (is_json_field(kept) and is_written_as_json(field)) or (is_uuid_field(kept) and is_text):
        return kept.with_nullable(field.nullable)
    types = [without_collations(_type_of(item, field.name)).simpleString() for item in (kept, field)]
    if types[0] == types[1]:
        return pa.field(field.name, kept.type, field.nullable, metadata=kept.metadata)
    # A different interval: the unit of the stored values is kept.
    return field.with_type(kept.type) if pt.is_duration(kept.type) and pt.is_duration(field.type) else field


def _large(dtype: pa.DataType) -> pa.DataType:
    def nested(field: pa.Field) -> pa.Field:
        return field.with_type(_large(field.type))

    if pt.is_string(dtype):
        return pa.large_string()
    if pt.is_binary(dtype):
        return pa.large_binary()
    if pt.is_struct(dtype):
        return pa.struct([nested(field) for field in dtype])
    if pt.is_map(dtype):
        return pa.map_(nested(dtype.key_field), nested(dtype.item_field))
    return pa.list_(nested(dtype.value_field)) if pt.is_list(dtype) else dtype


def _declared_as(given: pa.DataType, dtype: pa.DataType) -> pa.DataType:
    """`dtype` with nullability and lengths of texts of nested fields from `given`; both are one type in Spark."""

    def nested(source: pa.Field, field: pa.Field) -> pa.Field:
        declared = field.with_type(_declared_as(source.type, field.type)).with_nullable(source.nullable)
        return with_text_type_of(source, declared)

    if pt.is_struct(given) and pt.is_struct(dtype):
        return pa.struct([nested(given.field(field.name), field) for field in dtype])
    if pt.is_map(given) and pt.is_map(dtype):
        return pa.map_(nested(given.key_field, dtype.key_field), nested(given.item_field, dtype.item_field))
    if not pt.is_list(given):
        return dtype
    if pt.is_fixed_size_list(dtype):
        return pa.list_(nested(given.value_field, dtype.value_field), dtype.list_size)
    if pt.is_large_list(dtype):
        return pa.large_list(nested(given.value_field, dtype.value_field))
    return pa.list_(nested(given.value_field, dtype.value_field)) if pt.is_list(dtype) else dtype


def _with_lance_names(dtype: pa.DataType) -> pa.DataType:
    """Nested fields as in tables; renames list items from Spark's `element` to `item`, the name in Lance and Arrow."""
    if pt.is_struct(dtype):
        return pa.struct([_plain_field(child) for child in dtype])
    if pt.is_map(dtype):
        return pa.map_(_plain_field(dtype.key_field), _plain_field(dtype.item_field))
    return pa.list_(_plain_field(dtype.value_field).with_name("item")) if pt.is_list(dtype) else dtype
