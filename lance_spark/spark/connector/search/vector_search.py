"""``vector_search``: the rows whose vectors are nearest to a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import quote_name
from lance_spark.index.vector.segment import Probed
from lance_spark.spark.connector.search.arguments import VERSION_ARGUMENTS, Arguments, SearchCall, spelt_column
from lance_spark.table.reading.named_columns import check_distinct
from lance_spark.table.reading.system_columns import ROW_ID
from lance_spark.table.vector_search.query import DISTANCE, QUERY_INDEX, VectorColumn
from lance_spark.table.vector_search.request import NearestRequest
from lance_spark.table.vector_search.search import HitsOfParts, Part, Search
from lance_spark.table.vector_search.vector_verbs import VectorVerbs

NAMES = ("vector_search",)
_DEFAULT_COLUMN = "vector"
_POSITIONAL = ("table", "query_vector", "k")
OF_NEAREST = (
    *VERSION_ARGUMENTS,
    "vector_column",
    "num_results",
    "limit",
    "offset",
    "distance_type",
    "columns",
    "filter",
    "with_row_id",
    "nprobes",
    "minimum_nprobes",
    "maximum_nprobes",
    "refine_factor",
    "ef",
    "bypass_vector_index",
    "fast_search",
)
"""Arguments of all searches for the nearest rows, beside those that can be without a name."""
OF_DISTANCE = ("prefilter", "lower_bound", "upper_bound")
"""Arguments of those whose rows are chosen by distance alone."""
_KNOWN = (*_POSITIONAL, *OF_NEAREST, *OF_DISTANCE)


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
        read = [quoted_column(name) for name in columns if name != QUERY_INDEX]
        return self.dataset.searched(replace(self.search, columns=read)).select(columns)

    @property
    def probed(self) -> Probed:
        """Read statistics of the search."""
        return self.search.index.probed

    def explained(self) -> str:
        """Read statistics of the search, for plans."""
        return str(self.probed)

    def metrics(self) -> dict[str, int]:
        """Read statistics of the search, by the names of Spark's metrics."""
        return self.probed.metrics()

    def ordering(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Columns of the result by which it is sorted: query, then distance."""
        order = (QUERY_INDEX, DISTANCE) if self.search.query.is_batch else (DISTANCE,)
        return tuple(takewhile(columns.__contains__, order))

    def most_rows(self) -> int:
        """The largest number of rows of the result."""
        return self.search.query.k * len(self.search.query.queries)

    def vector_side(self) -> VectorSide:
        """The part of the search that tasks can do."""
        parts = self.dataset.searched_parts(self.search)
        return VectorSide(self.dataset, self.search.with_metric(parts), parts)

    def knowing(self, found: Iterable[HitsOfParts]) -> VectorSearch:
        """The search whose tasks have found these rows."""
        return replace(self, search=self.search.knowing(found))


@dataclass(frozen=True)
class VectorSide:
    """The part of a search that finds the nearest rows, which tasks can do.

    Attributes:
        dataset: the searched table.
        search: has a metric.
        parts: where.
    """

    dataset: VectorVerbs
    search: Search
    parts: Sequence[Part]


def plan_vector_search(dataset: VectorVerbs, call: SearchCall) -> VectorSearch:
    """The search of a call.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an argument is unknown, missing, or invalid.
    """
    arguments = Arguments(call, _POSITIONAL, _KNOWN)
    column = searched_vector_column(arguments, dataset.stored_schema)
    return VectorSearch(dataset, plan_with(dataset, arguments, column, arguments.required("query_vector")))


def plan_with(dataset: VectorVerbs, arguments: Arguments, column: str, query: Any) -> Search:
    """The search for `query` in a column, with the other arguments of a call. Raises as `plan_vector_search`."""
    request = nearest_request(dataset, arguments, column, query)
    offset = request.offset or 0
    search = dataset.plan_nearest(replace(request, k=request.num_nearest + offset))
    if offset and search.query.is_batch:
        raise InvalidInputError("several queries cannot have an offset; ask for more rows of each with k")
    return search


def nearest_request(
    dataset: VectorVerbs, arguments: Arguments, column: str, query: Any, added: Sequence[str] = (DISTANCE,)
) -> NearestRequest:
    """The arguments `OF_NEAREST` and `OF_DISTANCE` of a call, as `nearest` has them; `k` does not contain `offset`.

    Args:
        added: columns that the search adds to those of the table.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an argument is invalid.
    """
    offset = arguments.whole("offset") or 0
    if offset < 0:
        raise InvalidInputError(f"the argument offset is {offset}; it must not be negative")
    columns = arguments.columns("columns", dataset.stored_schema, (*added, ROW_ID))
    check_distinct(columns)
    bounds = (arguments.number("lower_bound"), arguments.number("upper_bound"))
    return NearestRequest(
        column,
        query,
        arguments.whole("num_results", "limit", "k"),
        arguments.text("distance_type"),
        arguments.text("filter"),
        columns=columns,
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


def quoted_column(name: str) -> str:
    """A column of a result, as a search takes it."""
    return name if name in (DISTANCE, ROW_ID) else quote_name(name)


def searched_vector_column(arguments: Arguments, schema: pa.Schema) -> str:
    """The column that a call names, else ``vector``, else the only column of vectors.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: it names none, and there are several or none.
    """
    named = arguments.text("vector_column")
    if named is not None:
        return spelt_column(named, schema)
    if _DEFAULT_COLUMN in schema.names:
        return _DEFAULT_COLUMN
    found = [field.name for field in schema if _has_vectors(field)]
    if len(found) != 1:
        known = ", ".join(found) or "none"
        raise InvalidInputError(f"a search needs the argument vector_column; columns of vectors are: {known}")
    return quote_name(found[0])


def _has_vectors(field: pa.Field) -> bool:
    try:
        VectorColumn.of(field.name, field.type)
    except InvalidInputError:
        return False
    return True
