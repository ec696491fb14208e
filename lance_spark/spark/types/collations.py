"""Strings with a collation, which Spark compares by rules of a language: Lance keeps its name in the field's metadata.

The engine compares bytes. So what it would compare for Spark never sees such columns: a filter that names one has no
form (`predicates.py`), and aggregates, orders and keys are made of `comparable` columns only.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as st

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.text_type import COLLATION

_NAME = re.compile("[A-Za-z0-9_]+")


def is_collated(dtype: st.DataType | None) -> bool:
    """Whether Spark compares strings of this type by other rules than their bytes, at any level."""
    if isinstance(dtype, st.StructType):
        return any(is_collated(part.dataType) for part in dtype.fields)
    if isinstance(dtype, st.ArrayType):
        return is_collated(dtype.elementType)
    if isinstance(dtype, st.MapType):
        return is_collated(dtype.keyType) or is_collated(dtype.valueType)
    return isinstance(dtype, st.StringType) and not dtype.isUTF8BinaryCollation()


def collation_metadata(dtype: st.DataType) -> dict[bytes, bytes]:
    """The metadata of a field for values of `dtype`; empty if they are compared by their bytes."""
    return {COLLATION: dtype.collation.encode()} if isinstance(dtype, st.StringType) and is_collated(dtype) else {}


def with_collation_of(field: pa.Field, spark: st.DataType, path: str) -> st.DataType:
    """The type `spark` of a field with the collation that its metadata names.

    Raises:
        UnsupportedFeatureError: the name is none that Spark could have.
    """
    name = (field.metadata or {}).get(COLLATION)
    if name is None or not isinstance(spark, st.StringType):
        return spark
    text = name.decode("utf-8", "replace")
    if _NAME.fullmatch(text) is None:
        raise UnsupportedFeatureError(
            f"column {path} has the collation {text[:80]!r}, which Spark does not have; choose other columns by "
            "option 'columns'",
            feature="collation",
        )
    return st.StringType(text)


def without_collations(dtype: st.DataType) -> st.DataType:
    """`dtype` with strings that are compared by their bytes, at every level."""
    if isinstance(dtype, st.StructType):
        return st.StructType(
            [
                st.StructField(part.name, without_collations(part.dataType), part.nullable, part.metadata)
                for part in dtype.fields
            ]
        )
    if isinstance(dtype, st.ArrayType):
        return st.ArrayType(without_collations(dtype.elementType), dtype.containsNull)
    if isinstance(dtype, st.MapType):
        key, value = without_collations(dtype.keyType), without_collations(dtype.valueType)
        return st.MapType(key, value, dtype.valueContainsNull)
    return st.StringType() if is_collated(dtype) else dtype


def comparable(columns: pa.Schema) -> pa.Schema:
    """The columns that Spark compares as the engine does: those without a collation, at any level."""
    if not any(map(has_collation, columns)):
        return columns
    return pa.schema([field for field in columns if not has_collation(field)], metadata=columns.metadata)


def has_collation(field: pa.Field) -> bool:
    """Whether Spark compares values of a column, or of a part of it, by other rules than their bytes."""
    if COLLATION in (field.metadata or {}):
        return True
    dtype = field.type
    if not pt.is_nested(dtype):
        return False
    parts = [dtype.key_field, dtype.item_field] if pt.is_map(dtype) else map(dtype.field, range(dtype.num_fields))
    return any(map(has_collation, parts))
