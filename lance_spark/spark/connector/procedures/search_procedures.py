"""The procedures that search, for sessions without the table functions. Their rows come back with the reply."""

from __future__ import annotations

import base64
import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import ArrayType, DataType, VariantType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.spark.connector.procedures.procedure_types import (
    FLAG,
    NUMBER,
    TABLE,
    TEXT,
    TEXTS,
    WHOLE,
    Arguments,
    Invocation,
    Parameter,
    Procedure,
    Tasks,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows
from lance_spark.spark.connector.search.arguments import SearchCall
from lance_spark.spark.connector.search.hybrid_search import plan_hybrid_search
from lance_spark.spark.connector.search.search_tasks import DividedCall, after, tasks_of
from lance_spark.spark.connector.search.text_search import plan_text_search
from lance_spark.spark.connector.search.vector_search import plan_vector_search
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.spark.types.geometry import is_geo_type
from lance_spark.spark.types.json_columns import with_json_texts
from lance_spark.spark.types.schemas import to_spark_schema

_PLANS: Mapping[str, Callable[[AnyDataset, SearchCall], DividedCall]] = {
    "search": plan_text_search,
    "vector_search": plan_vector_search,
    "hybrid_search": plan_hybrid_search,
}


def _search(function: str) -> Callable[[Invocation], LocalRows | Tasks]:
    """The procedure that does what the table function of the same name does."""

    def run(call: Invocation) -> LocalRows | Tasks:
        planned = _PLANS[function](call.table(), _call(function, call.arguments))
        tasks = tasks_of(planned, call.session)
        return _rows(planned) if tasks is None else Tasks(*tasks, pickle.dumps(planned))

    return run


def _call(function: str, given: Arguments) -> SearchCall:
    """The given arguments, in the form of the table function's arguments."""
    named = {}
    for parameter in _PARAMETERS[function]:
        texts = given.values.get(parameter.name)
        if texts is not None:
            named[parameter.name] = _vector(texts[0]) if parameter is _QUERY_VECTOR else _json(parameter, texts)
        elif parameter.required:
            # Spark refuses calls without it.
            named[parameter.name] = "null"
    return SearchCall(function, (), named)


def _vector(text: str | None) -> str:
    try:
        json.loads(text or "")
    except ValueError as error:
        raise InvalidInputError(f"query_vector is {text!r:.80}; write its values as '[1.5, 0.25]'") from error
    return str(text)


def _json(parameter: Parameter, texts: Sequence[str | None]) -> str:
    (text, *_) = [*texts, None]
    if parameter.type == TEXTS:
        return json.dumps(texts)
    if text is None or parameter.type == TEXT:
        return json.dumps(text)
    return json.dumps(
        text == "true" if parameter.type == FLAG else int(text) if parameter.type == WHOLE else float(text)
    )


def _finish(state: bytes, results: Sequence[bytes]) -> LocalRows:
    # Pickled by the planner of this very call.
    return _rows(after(pickle.loads(state), results))


def _rows(planned: DividedCall) -> LocalRows:
    found = with_json_texts(planned.rows(planned.schema().names))
    schema = to_spark_schema(found.schema)
    for field in schema.fields:
        _check_has_text(field.name, field.dataType)
    values = [_texts(found.column(field.name), field.name) for field in schema.fields]
    rows = tuple(list(row) for row in zip(*values, strict=True)) if values else ()
    return LocalRows(schema, rows)


def _check_has_text(name: str, dtype: DataType) -> None:
    if isinstance(dtype, ArrayType):
        _check_has_text(name, dtype.elementType)
    elif isinstance(dtype, VariantType) or is_geo_type(dtype):
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


_FILTER = Parameter("filter", TEXT, "a condition; only rows for which it is true are found")
_PREFILTER = Parameter("prefilter", FLAG, "false: the filter is asked about the rows found")
_COLUMNS = Parameter("columns", TEXTS, "the columns of the result; all if it is left out")
_OFFSET = Parameter("offset", WHOLE, "after leaving out this many of the best rows")
_WITH_ROW_ID = Parameter("with_row_id", FLAG, "adds _rowid")
_SEARCH_COLUMNS = Parameter("search_columns", TEXTS, "where words are searched; all columns with a text index")
# Not an array: Spark 4.3 fails on calls whose arguments need a cast before they are of one type, as 1.5 and 0.25 do.
_QUERY_VECTOR = Parameter("query_vector", TEXT, "the values of the vector: '[1.5, 0.25]'", required=True)
_QUERY = Parameter("query", TEXT, "the words", required=True)
_OF_WORDS = (
    Parameter("operator", TEXT, "OR: any word, AND: all words in one column"),
    Parameter("fuzziness", TEXT, "the edit distance of terms that match too, 0 if it is left out, or auto"),
    Parameter("prefix_length", WHOLE, "how many characters of a fuzzy word match exactly, 0 if it is left out"),
    Parameter("max_expansions", WHOLE, "how many terms fuzzy words stand for, 50 if it is left out"),
    Parameter("boost", NUMBER, "multiplies the scores"),
    Parameter("phrase", FLAG, "true: the words in this order"),
    Parameter("slop", WHOLE, "how many other words may stand between two words of a phrase"),
)
_K = Parameter("k", WHOLE, "at most this many rows, 10 if it is left out")
_OF_VECTORS = (
    Parameter("vector_column", TEXT, "the column of vectors; vector, or the only one, if it is left out"),
    Parameter("distance_type", TEXT, "l2, cosine, dot or hamming; that of the index if it is left out"),
    _COLUMNS,
    _FILTER,
    _OFFSET,
    _WITH_ROW_ID,
    Parameter("nprobes", WHOLE, "partitions of the index to search"),
    Parameter("minimum_nprobes", WHOLE, "partitions to search at least"),
    Parameter("maximum_nprobes", WHOLE, "partitions to search at most"),
    Parameter("refine_factor", WHOLE, "candidates for each row of the result, compared by their vectors"),
    Parameter("ef", WHOLE, "candidates of a walk through a graph"),
    Parameter("fast_search", FLAG, "leaves out rows that no index covers"),
    Parameter("bypass_vector_index", FLAG, "compares all vectors"),
)
_PARAMETERS = {
    "search": (
        _QUERY,
        _SEARCH_COLUMNS,
        _COLUMNS,
        Parameter("limit", WHOLE, "at most this many rows, 10 if it is left out"),
        _OFFSET,
        _FILTER,
        _PREFILTER,
        _WITH_ROW_ID,
        *_OF_WORDS,
    ),
    "vector_search": (
        _QUERY_VECTOR,
        _K,
        *_OF_VECTORS,
        _PREFILTER,
        Parameter("lower_bound", NUMBER, "only distances from this one on"),
        Parameter("upper_bound", NUMBER, "only distances below this one"),
    ),
    "hybrid_search": (
        _QUERY_VECTOR,
        _QUERY,
        _K,
        *_OF_VECTORS,
        _SEARCH_COLUMNS,
        Parameter("candidates", WHOLE, "rows that each side finds"),
        Parameter("fusion", TEXT, "rrf or linear"),
        Parameter("rrf_k", NUMBER, "60 if it is left out"),
        Parameter("vector_weight", NUMBER, "of the vector side in a linear fusion, 0 to 1"),
        *_OF_WORDS,
    ),
}
_COMMENTS = {
    "search": "The rows that contain words, best first, with their score in _score.",
    "vector_search": "The rows whose vectors are nearest to a query, with their distance in _distance.",
    "hybrid_search": "The rows that a vector and words find, with _distance, _score and _relevance_score.",
}
PROCEDURES = tuple(
    Procedure(name, comment, (TABLE, *_PARAMETERS[name]), _search(name), finish=_finish)
    for name, comment in _COMMENTS.items()
)
"""All procedures of this module: the table functions of these names, for sessions without the extension."""
