"""``vector_search``: the rows whose vectors are nearest to a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.nodes import quote_name
from lance_spark.schema.projection import parse_path
from lance_spark.spark.connector.search.arguments import VERSION_ARGUMENTS, Arguments, SearchCall
from lance_spark.table.reading.system_columns import ROW_ID
from lance_spark.table.vector_search.query import DEFAULT_K, DISTANCE, QUERY_INDEX, VectorColumn
from lance_spark.table.vector_search.search import Search
from lance_spark.table.vector_search.vector_verbs import VectorVerbs

NAMES = ("vector_search",)
_DEFAULT_COLUMN = "vector"
_POSITIONAL = ("table", "query_vector", "k")
_KNOWN = (
    *_POSITIONAL,
    *VERSION_ARGUMENTS,
    "vector_column",
    "num_results",
    "limit",
    "offset",
    "distance_type",
    "columns",
    "filter",
    "prefilter",
    "nprobes",
    "minimum_nprobes",
    "maximum_nprobes",
    "refine_factor",
    "ef",
    "lower_bound",
    "upper_bound",
    "bypass_vector_index",
    "fast_search",
    "with_row_id",
)


@dataclass(frozen=True)
class VectorSearch:
    """A call of ``vector_search``, checked."""

    dataset: VectorVerbs
    search: Search

    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.search.run([], self.dataset.unread(self.search)).schema

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """The result, with these of its columns. Raises as `VectorVerbs.nearest`."""
        read = [_quoted(name) for name in columns if name != QUERY_INDEX]
        return self.dataset.searched(replace(self.search, columns=read)).select(columns)


def plan_vector_search(dataset: VectorVerbs, call: SearchCall) -> VectorSearch:
    """The search of a call.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an argument is unknown, missing, or makes no sense.
    """
    arguments = Arguments(call, _POSITIONAL, _KNOWN)
    k = arguments.whole("num_results", "limit", "k")
    offset = arguments.whole("offset") or 0
    if offset < 0:
        raise InvalidInputError(f"the argument offset of vector_search is {offset}; it must not be negative")
    bounds = (arguments.number("lower_bound"), arguments.number("upper_bound"))
    search = dataset.plan_nearest(
        arguments.text("vector_column") or _only_vector_column(dataset.schema),
        arguments.required("query_vector"),
        (DEFAULT_K if k is None else k) + offset,
        arguments.text("distance_type"),
        arguments.text("filter"),
        columns=_columns(arguments.names("columns"), dataset.schema),
        prefilter=arguments.flag("prefilter", True),
        distance_range=None if bounds == (None, None) else bounds,
        offset=offset,
        with_row_id=arguments.flag("with_row_id", False),
        use_index=not arguments.flag("bypass_vector_index", False),
        nprobes=arguments.whole("nprobes"),
        minimum_nprobes=arguments.whole("minimum_nprobes"),
        maximum_nprobes=arguments.whole("maximum_nprobes"),
        refine_factor=arguments.whole("refine_factor"),
        ef=arguments.whole("ef"),
        fast_search=arguments.flag("fast_search", False),
    )
    return VectorSearch(dataset, search)


def _quoted(name: str) -> str:
    return name if name in (DISTANCE, ROW_ID) else quote_name(name)


def _columns(names: list[str] | None, schema: pa.Schema) -> list[str] | None:
    """The names as the table spells them, quoted."""
    if names is None:
        return None
    system = {DISTANCE: DISTANCE, ROW_ID: ROW_ID}
    return [
        system.get(name.lower()) or ".".join(map(quote_name, resolve_names(schema, parse_path(name)))) for name in names
    ]


def _only_vector_column(schema: pa.Schema) -> str:
    if _DEFAULT_COLUMN in schema.names:
        return _DEFAULT_COLUMN
    found = [field.name for field in schema if _has_vectors(field)]
    if len(found) != 1:
        known = ", ".join(found) or "none"
        raise InvalidInputError(f"vector_search needs the argument vector_column; columns of vectors are: {known}")
    return quote_name(found[0])


def _has_vectors(field: pa.Field) -> bool:
    try:
        VectorColumn.of(field.name, field.type)
    except InvalidInputError:
        return False
    return True
