"""``hybrid_search``: the rows that a vector and words find, in one order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lance_spark.expr.nodes import quote_name
from lance_spark.index.vector.segment import Probed
from lance_spark.spark.connector.search.arguments import Arguments, SearchCall, column_tops
from lance_spark.spark.connector.search.text_search import OF_WORDS, text_query
from lance_spark.spark.connector.search.vector_search import (
    OF_NEAREST,
    VectorSide,
    nearest_request,
    searched_vector_column,
)
from lance_spark.table.reading.system_columns import ROW_ID, flagged
from lance_spark.table.search.divided import FoundInPiece, knowing
from lance_spark.table.search.result_columns import arranged, read_columns
from lance_spark.table.vector_search.hybrid import ADDED_BY_HYBRID_SEARCH, Fusion, HybridSearch
from lance_spark.table.vector_search.hybrid_verbs import HybridVerbs
from lance_spark.table.vector_search.search import HitsOfParts

NAMES = ("hybrid_search",)
_POSITIONAL = ("table", "query_vector", "query", "k")
_KNOWN = (
    *_POSITIONAL,
    *OF_NEAREST,
    "search_query",
    "search_columns",
    "candidates",
    "num_candidates",
    "candidate_count",
    "fusion",
    "rrf_k",
    "vector_weight",
    *OF_WORDS,
)
_ADDED = (*ADDED_BY_HYBRID_SEARCH, ROW_ID)


@dataclass(frozen=True)
class HybridCall:
    """A call of ``hybrid_search``, checked; `columns` are those of the result, None for all."""

    dataset: HybridVerbs
    search: HybridSearch
    columns: Sequence[str] | None

    def schema(self) -> pa.Schema:
        """The columns of the result."""
        wanted = self.search.vector
        found = self.dataset.hybrid_schema(wanted.columns, with_row_id=wanted.with_row_id)
        last = flagged(wanted.with_row_id, False)
        return arranged(found.empty_table(), column_tops(self.columns), ADDED_BY_HYBRID_SEARCH, last).schema

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """The result, with these of its columns. Raises as `HybridVerbs.hybrid_search`."""
        wanted = self.search.vector
        read = wanted.columns or [quote_name(name) for name in columns if name not in _ADDED]
        found = self.dataset.found_by_both(replace(self.search, vector=replace(wanted, columns=read)))
        return found.select(columns)

    @property
    def probed(self) -> Probed:
        """Read statistics of the vector side."""
        return self.search.vector.index.probed

    def explained(self) -> str:
        """Read statistics of the vector side, for plans."""
        return str(self.probed)

    def metrics(self) -> dict[str, int]:
        """Read statistics of the vector side, by the names of Spark's metrics."""
        return self.probed.metrics()

    def ordering(self, columns: Sequence[str]) -> tuple[str, ...]:
        """None: the order is descending."""
        return ()

    def most_rows(self) -> int:
        """The largest number of rows of the result."""
        return self.search.limit

    def vector_side(self) -> VectorSide:
        """The part of the search that tasks can do."""
        parts = self.search.vector_parts(self.dataset.hybrid_parts(self.search)[0])
        return VectorSide(self.dataset, self.search.vector.with_metric(parts), parts)

    def knowing(self, found: Iterable[HitsOfParts]) -> HybridCall:
        """The search whose tasks have found these rows."""
        return replace(self, search=replace(self.search, vector=self.search.vector.knowing(found)))

    def knowing_texts(self, found: Iterable[FoundInPiece]) -> HybridCall:
        """The search whose tasks have analyzed the rows that no text index covers."""
        return replace(self, search=replace(self.search, known=knowing(self.search.text_request(), found).known))


def plan_hybrid_search(dataset: HybridVerbs, call: SearchCall) -> HybridCall:
    """The search of a call.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an argument is unknown, missing or invalid.
    """
    arguments = Arguments(call, _POSITIONAL, _KNOWN)
    given = arguments.text("search_query") or arguments.text("query")
    words = given if given is not None else arguments.required("query")
    fusion: dict[str, Any] = {
        "kind": arguments.text("fusion"),
        "rrf_k": arguments.number("rrf_k"),
        "vector_weight": arguments.number("vector_weight"),
    }
    column, vector = searched_vector_column(arguments, dataset.stored_schema), arguments.required("query_vector")
    nearest = nearest_request(dataset, arguments, column, vector, ADDED_BY_HYBRID_SEARCH)
    last = flagged(nearest.with_row_id, False)
    read = read_columns(nearest.columns, dataset.stored_schema, ADDED_BY_HYBRID_SEARCH, last)
    search = dataset.plan_hybrid_search(
        replace(nearest, columns=read),
        text_query(arguments, words),
        arguments.columns("search_columns", dataset.stored_schema, in_lists=True),
        arguments.whole("candidates", "num_candidates", "candidate_count"),
        Fusion(**{name: value for name, value in fusion.items() if value is not None}),
    )
    return HybridCall(dataset, search, nearest.columns)
