"""``hybrid_search``: the rows that a vector and words find, in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.expr.nodes import quote_name
from lance_spark.spark.connector.search.arguments import VERSION_ARGUMENTS, Arguments, SearchCall
from lance_spark.spark.connector.search.vector_search import (
    OF_THE_INDEX,
    index_options,
    searched_vector_column,
    spelt_columns,
)
from lance_spark.table.reading.system_columns import ROW_ID
from lance_spark.table.search.text_search import SCORE
from lance_spark.table.vector_search.hybrid import RELEVANCE
from lance_spark.table.vector_search.hybrid_verbs import HybridVerbs
from lance_spark.table.vector_search.query import DEFAULT_K, DISTANCE

NAMES = ("hybrid_search",)
_POSITIONAL = ("table", "query_vector", "query", "k")
_KNOWN = (
    *_POSITIONAL,
    *VERSION_ARGUMENTS,
    *OF_THE_INDEX,
    "vector_column",
    "search_query",
    "search_columns",
    "num_results",
    "limit",
    "offset",
    "distance_type",
    "columns",
    "filter",
    "candidates",
    "num_candidates",
    "candidate_count",
    "fusion",
    "rrf_k",
    "vector_weight",
    "with_row_id",
)
_ADDED = (DISTANCE, SCORE, RELEVANCE, ROW_ID)


@dataclass(frozen=True)
class HybridCall:
    """A call of ``hybrid_search``, checked; `columns` are those of the table in the result, None for all."""

    dataset: HybridVerbs
    arguments: Mapping[str, Any]
    columns: list[str] | None
    with_row_id: bool

    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.dataset.hybrid_schema(self.columns, with_row_id=self.with_row_id)

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """The result, with these of its columns. Raises as `HybridVerbs.hybrid_search`."""
        read = self.columns or [quote_name(name) for name in columns if name not in _ADDED]
        found = self.dataset.hybrid_search(**self.arguments, columns=read, with_row_id=self.with_row_id)
        return found.select(columns)

    def explained(self) -> str:
        """Nothing."""
        return ""

    def metrics(self) -> dict[str, int]:
        """Nothing: its work is not counted."""
        return {}


def plan_hybrid_search(dataset: HybridVerbs, call: SearchCall) -> HybridCall:
    """The search of a call.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an argument is unknown, missing or invalid.
    """
    arguments = Arguments(call, _POSITIONAL, _KNOWN)
    words = arguments.text("search_query") or arguments.text("query")
    k = arguments.whole("num_results", "limit", "k")
    rrf_k, weight = arguments.number("rrf_k"), arguments.number("vector_weight")
    passed: dict[str, Any] = {
        "column": searched_vector_column(arguments, dataset.schema),
        "query_vector": arguments.required("query_vector"),
        "query": words if words is not None else arguments.required("query"),
        "k": DEFAULT_K if k is None else k,
        "metric": arguments.text("distance_type"),
        "filter": arguments.text("filter"),
        "search_columns": arguments.names("search_columns"),
        "candidates": arguments.whole("candidates", "num_candidates", "candidate_count"),
        "fusion": arguments.text("fusion") or "rrf",
        "offset": arguments.whole("offset"),
        **index_options(arguments),
    }
    passed |= {} if rrf_k is None else {"rrf_k": rrf_k}
    passed |= {} if weight is None else {"vector_weight": weight}
    columns = spelt_columns(arguments.names("columns"), dataset.schema)
    with_row_id = arguments.flag("with_row_id", False)
    # A wrong argument is an error of the statement, not of its execution.
    dataset.check_hybrid_search(**passed, columns=columns, with_row_id=with_row_id)
    return HybridCall(dataset, passed, columns, with_row_id)
