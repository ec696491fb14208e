"""CHAR and VARCHAR: strings whose length Spark checks; Lance keeps the declared type in the metadata of the field.

Spark inserts the checks, and pads values of CHAR, where the metadata of a top-level column names the declared type. The
engine checks the lengths too (`table/writing/row_pipeline.py`); other libraries see strings.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as st

from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import with_metadata
from lance_spark.schema.field import Field
from lance_spark.schema.text_type import COLLATION, TEXT_TYPE, TextType, text_type

SPARK_TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata in which Spark keeps the declared type of a column with such strings (`CharVarcharUtils`)."""


_DECLARED = (COLLATION, TEXT_TYPE)
_TEXTS = re.compile(r"\b(?:var)?char\(\d+\)")


def has_text_types(field: pa.Field) -> bool:
    """Whether a column is a CHAR or VARCHAR, or has such members or items."""
    if _text_of(field) is not None:
        return True
    return any(has_text_types(child) for child in _children(field.type))


def declared_type(field: pa.Field, spark: st.DataType) -> str:
    """The type of a column as Spark's catalogs write it, with CHAR and VARCHAR.

    Args:
        spark: its type with strings.
    """
    text = _text_of(field)
    if text is not None and isinstance(spark, st.StringType):
        return str(text).lower()
    children = _children(field.type)
    if isinstance(spark, st.StructType):
        members = [
            f"`{part.name.replace('`', '``')}`:{declared_type(child, part.dataType)}"
            for child, part in zip(children, spark.fields, strict=True)
        ]
        return f"struct<{','.join(members)}>"
    if isinstance(spark, st.MapType):
        return f"map<{declared_type(children[0], spark.keyType)},{declared_type(children[1], spark.valueType)}>"
    if isinstance(spark, st.ArrayType):
        return f"array<{declared_type(children[0], spark.elementType)}>"
    return spark.simpleString()


def _text_of(field: pa.Field) -> TextType | None:
    return text_type((field.metadata or {}).get(TEXT_TYPE))


def _children(dtype: pa.DataType) -> list[pa.Field]:
    if pt.is_dictionary(dtype):
        return []
    if pt.is_map(dtype):
        return [dtype.key_field, dtype.item_field]
    return [dtype.field(index) for index in range(dtype.num_fields)]


def with_text_type_of(source: pa.Field, field: pa.Field) -> pa.Field:
    """`field` with the declared length and the collation of the text `source`, or without one."""
    kept = {key: value for key, value in (field.metadata or {}).items() if key not in _DECLARED}
    declared = {key: value for key, value in (source.metadata or {}).items() if key in _DECLARED}
    return field.with_metadata({**kept, **declared})


def with_declared_types(columns: st.StructType, declared: st.StructType) -> st.StructType:
    """The columns of a query in the types that a statement has for them, where these differ in the lengths of texts."""
    if len(columns.fields) != len(declared.fields):
        return columns
    return st.StructType(
        [
            st.StructField(field.name, other.dataType, field.nullable, field.metadata)
            if field.dataType.simpleString() == _TEXTS.sub("string", other.dataType.simpleString())
            else field
            for field, other in zip(columns.fields, declared.fields, strict=True)
        ]
    )


def with_longer_text(field: Field, spark: st.DataType, path: str) -> Field:
    """The text column `field` with the type `spark`, which holds all values that it can have.

    Raises:
        InvalidInputError: it does not.
    """
    key = TEXT_TYPE.decode()
    old = text_type(field.metadata.get(key))
    rest = {name: value for name, value in field.metadata.items() if name != key}
    if not isinstance(spark, (st.CharType, st.VarcharType)):
        return with_metadata(field, rest)
    new = TextType(int(spark.length), isinstance(spark, st.CharType))
    if old != new and (old is None or new.is_char or old.length > new.length):
        raise InvalidInputError(
            f"column {path} is {old or 'STRING'}, and not all of its values have to be a {new}; add a column of "
            "that type and UPDATE it"
        )
    return with_metadata(field, {**rest, key: spark.simpleString().encode()})
