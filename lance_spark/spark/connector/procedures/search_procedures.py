"""The procedure for full-text search. The rows that the planner has found come back with the reply."""

from __future__ import annotations

import base64
import math
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import ArrayType, DataType, SpatialType, VariantType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.spark.connector.procedures.procedure_types import (
    FLAG,
    TABLE,
    TEXT,
    TEXTS,
    WHOLE,
    Invocation,
    Parameter,
    Procedure,
    Tasks,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows
from lance_spark.spark.connector.scan.settings import analyzed_inline_bytes
from lance_spark.spark.connector.search.arguments import spelt_columns
from lance_spark.spark.connector.search.divided_text import TextTask, after_text_tasks, text_pieces
from lance_spark.spark.connector.search.text_search import DEFAULT_LIMIT, TextSearch
from lance_spark.spark.types.json_columns import with_json_texts
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.table.reading.system_columns import ROW_ID
from lance_spark.table.search.text_search import SCORE, SearchRequest


def _search(call: Invocation) -> LocalRows | Tasks:
    table, arguments = call.table(), call.arguments
    dataset = PartitionedDataset.of(table) if isinstance(table, PartitionedTable) else table
    limit = arguments.integer("limit")
    schema = dataset.stored_schema
    request = SearchRequest(
        arguments.text("query") or "",
        spelt_columns(arguments.texts("search_columns"), schema) or None,
        DEFAULT_LIMIT if limit is None else limit,
        arguments.integer("offset"),
    )
    columns = spelt_columns(arguments.texts("columns"), schema, (SCORE, ROW_ID)) or None
    with_row_id = bool(arguments.flag("with_row_id"))
    planned = TextSearch(dataset, request, columns, arguments.text("filter"), with_row_id)
    pieces = text_pieces(dataset, request, analyzed_inline_bytes(call.text_search_inline_bytes))
    if not pieces:
        return _rows(planned)
    return Tasks(TextTask(dataset, request), [pickle.dumps(piece) for piece in pieces], pickle.dumps(planned))


def _finish(state: bytes, results: Sequence[bytes]) -> LocalRows:
    # Pickled by the planner of this very call.
    return _rows(after_text_tasks(pickle.loads(state), results))


def _rows(planned: TextSearch) -> LocalRows:
    found = with_json_texts(planned.found())
    schema = to_spark_schema(found.schema)
    for field in schema.fields:
        _check_has_text(field.name, field.dataType)
    values = [_texts(found.column(field.name), field.name) for field in schema.fields]
    rows = tuple(list(row) for row in zip(*values, strict=True)) if values else ()
    return LocalRows(schema, rows)


def _check_has_text(name: str, dtype: DataType) -> None:
    if isinstance(dtype, ArrayType):
        _check_has_text(name, dtype.elementType)
    elif isinstance(dtype, (VariantType, SpatialType)):
        raise _not_returned(name, dtype.simpleString())


def _not_returned(name: str, dtype: object) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"column {name!r} is {dtype}, which search does not return; leave it out by columns => array(...)",
        feature=f"search returning {dtype}",
    )


def _texts(column: pa.ChunkedArray, name: str) -> list[Any]:
    """The values as the JVM parses them."""
    dtype = column.type
    if pt.is_dictionary(dtype):
        return _texts(column.cast(dtype.value_type), name)
    if pt.is_list(dtype) or pt.is_large_list(dtype) or pt.is_fixed_size_list(dtype):
        return [
            None if value is None else _texts(pa.chunked_array([pa.array(value, dtype.value_type)]), name)
            for value in column.to_pylist()
        ]
    if pt.is_date(dtype):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pt.is_timestamp(dtype):
        column = column.cast(pa.timestamp("us", dtype.tz), safe=False).cast(pa.int64())
    elif not _is_plain(dtype):
        raise _not_returned(name, dtype)
    return [_text(value) for value in column.to_pylist()]


def _is_plain(dtype: pa.DataType) -> bool:
    is_number = pt.is_integer(dtype) or pt.is_floating(dtype) or pt.is_decimal(dtype)
    is_text = pt.is_string(dtype) or pt.is_large_string(dtype)
    is_binary = pt.is_binary(dtype) or pt.is_large_binary(dtype) or pt.is_fixed_size_binary(dtype)
    return bool(is_number or is_text or is_binary or pt.is_boolean(dtype))


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value)


PROCEDURES = (
    Procedure(
        "search",
        "The rows that contain words, best first, with their score in _score.",
        (
            TABLE,
            Parameter("query", TEXT, "the words", required=True),
            Parameter("search_columns", TEXTS, "where to search; all columns with a text index if it is left out"),
            Parameter("columns", TEXTS, "the columns of the result; all if it is left out"),
            Parameter("limit", WHOLE, "at most this many rows, 10 if it is left out"),
            Parameter("offset", WHOLE, "after leaving out this many of the best rows"),
            Parameter("filter", TEXT, "a condition; only rows for which it is true are found"),
            Parameter("with_row_id", FLAG, "adds _rowid"),
        ),
        _search,
        finish=_finish,
    ),
)
"""All procedures of this module."""
