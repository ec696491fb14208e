"""Descriptions of blobs among the rows of a write: their columns are blob columns, and their bytes are copied."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as st

from lance_spark.errors import InvalidInputError
from lance_spark.schema.blob import BLOB_KEY
from lance_spark.table.writing.conform import is_blob_type

DESCRIPTION = (
    st.StructType()
    .add("kind", st.ShortType(), False)
    .add("position", st.LongType(), False)
    .add("size", st.LongType(), False)
    .add("blob_id", st.LongType(), False)
    .add("blob_uri", st.StringType(), False)
    .add("source", st.StringType(), False)
)
"""The type that Spark has for descriptions of blobs."""

_MEMBERS = [(field.name, field.dataType) for field in DESCRIPTION.fields]
_ARROW_MEMBERS = [
    ("kind", pa.int16()),
    ("position", pa.int64()),
    ("size", pa.int64()),
    ("blob_id", pa.int64()),
    ("blob_uri", pa.string()),
    ("source", pa.string()),
]


def has_descriptions(dtype: st.DataType) -> bool:
    """True for descriptions, and for a struct that has some."""
    if not isinstance(dtype, st.StructType):
        return False
    is_description = [(field.name, field.dataType) for field in dtype.fields] == _MEMBERS
    return is_description or any(has_descriptions(field.dataType) for field in dtype.fields)


def is_description_type(dtype: pa.DataType) -> bool:
    """True for the type in which Spark sends descriptions."""
    return pt.is_struct(dtype) and [(field.name, field.type) for field in dtype] == _ARROW_MEMBERS


def check_no_descriptions(columns: pa.Schema) -> None:
    """Passes if rows with `columns` have no descriptions of blobs.

    Raises:
        InvalidInputError: they have some, which mean nothing outside of their table.
    """
    for field in columns:
        if _has_description(field.type):
            raise InvalidInputError(
                f"column {field.name!r} has descriptions of blobs, and this statement writes no blob columns: INSERT, "
                f"MERGE and CREATE TABLE AS SELECT copy blobs, and lance_read_blob({field.name}) gives their bytes"
            )


def with_blob_columns(given: pa.Schema, table: pa.Schema | None, *, replaces: bool) -> pa.Schema:
    """The schema `given` with blob columns where rows have descriptions.

    Args:
        table: the columns that there are. One of them that is a plain struct stays one.
        replaces: whether the columns replace those of `table`.

    Raises:
        InvalidInputError: a new column has descriptions in arrays or maps, where there are no blob columns, or such
            that do not say where their bytes are.
    """
    known = {} if table is None else {field.name: field for field in table}
    return pa.schema(_with_blobs(given, known, replaces, ""), metadata=given.metadata)


def _with_blobs(given: Iterable[pa.Field], known: dict[str, pa.Field], replaces: bool, path: str) -> list[pa.Field]:
    fields = []
    for field in given:
        kept, name = known.get(field.name), f"{path}{field.name}"
        if is_description_type(field.type):
            is_blob = replaces or kept is None or is_blob_type(kept)
            fields.append(_blob(field, kept) if is_blob else field)
        elif (kept is None or replaces) and _is_without_source(field.type):
            raise InvalidInputError(
                f"column {name!r} has descriptions of blobs that do not say where their bytes are; read the blob "
                "column from the table itself, or select its members, such as img.size"
            )
        elif pt.is_struct(field.type):
            below = {child.name: child for child in kept.type} if kept is not None and pt.is_struct(kept.type) else {}
            fields.append(field.with_type(pa.struct(_with_blobs(field.type, below, replaces, f"{name}."))))
        elif (kept is None or replaces) and _has_description(field.type):
            raise InvalidInputError(
                f"column {name!r} has descriptions of blobs in arrays or maps, where their bytes cannot be kept; "
                "select the blob column itself, or its members, such as img.size"
            )
        else:
            fields.append(field)
    return fields


def _blob(field: pa.Field, kept: pa.Field | None) -> pa.Field:
    metadata = {} if kept is None or not is_blob_type(kept) else dict(kept.metadata or {})
    # The borders between kinds of storage stay as they are.
    sizes = {key: value for key, value in metadata.items() if key.startswith(BLOB_KEY.encode())}
    own = dict(field.metadata or {})
    return pa.field(field.name, pa.large_binary(), field.nullable, {**sizes, **own, BLOB_KEY.encode(): b"true"})


def _is_without_source(dtype: pa.DataType) -> bool:
    """True for descriptions as searches and other programs return them, with numbers of any type."""
    return pt.is_struct(dtype) and [field.name for field in dtype] == [name for name, _ in _MEMBERS[:-1]]


def _has_description(dtype: pa.DataType) -> bool:
    if is_description_type(dtype) or _is_without_source(dtype):
        return True
    return pt.is_nested(dtype) and any(_has_description(dtype.field(place).type) for place in range(dtype.num_fields))
