"""The arguments of a vector search, in one place for all its verbs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.index.vector.probing import Probing
from lance_spark.table.vector_search.defaults import DEFAULT_K
from lance_spark.table.vector_search.indexed import IndexUse
from lance_spark.table.vector_search.query import VectorQuery
from lance_spark.table.vector_search.search import Search, searched_column

_REFERENCE_KEYS = (
    "k",
    "metric",
    "nprobes",
    "minimum_nprobes",
    "maximum_nprobes",
    "refine_factor",
    "use_index",
    "ef",
    "distance_range",
)
"""Optional keys of the reference library's ``nearest={...}``; they have the names that they have here."""


@dataclass(frozen=True)
class NearestRequest:
    """The arguments of `VectorVerbs.nearest`, which describes them, with their defaults."""

    column: str
    query: Any
    k: int | None = None
    metric: str | None = None
    filter: Expr | str | None = None
    columns: Sequence[str] | None = None
    prefilter: bool = True
    distance_range: Sequence[float | None] | None = None
    limit: int | None = None
    offset: int | None = None
    with_row_id: bool = False
    use_index: bool = True
    nprobes: int | None = None
    minimum_nprobes: int | None = None
    maximum_nprobes: int | None = None
    refine_factor: int | None = None
    fast_search: bool = False
    use_scalar_index: bool = True
    ef: int | None = None

    @classmethod
    def of_reference(cls, nearest: Mapping[str, Any], **others: Any) -> NearestRequest:
        """The request of the reference library's ``to_table(nearest={...})``.

        Args:
            nearest: ``column`` and ``q``, and any of the optional keys.
            others: arguments beside `nearest`; `prefilter` is False unless it is among them.

        Raises:
            InvalidInputError: a key of `nearest` is unknown or missing.
        """
        known = ("column", "q", *_REFERENCE_KEYS)
        for name in nearest:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(known)}"
                raise InvalidInputError(f"nearest has no key {name!r}; {hint}")
        for name in ("column", "q"):
            if name not in nearest:
                raise InvalidInputError(f"nearest needs the key {name!r}")
        options = {name: nearest[name] for name in _REFERENCE_KEYS if nearest.get(name) is not None}
        return cls(nearest["column"], nearest["q"], **{"prefilter": False, **others, **options})

    @property
    def num_nearest(self) -> int:
        """`k`; without one the limit, and without both 10."""
        if self.k is not None:
            return self.k
        # No row is a result, but no search.
        return DEFAULT_K if self.limit is None else max(self.limit, 1)

    def search(self, schema: pa.Schema) -> Search:
        """The checked search in a table with the columns `schema`. Raises as `VectorVerbs.nearest`."""
        column = searched_column(self.column, schema)
        query = VectorQuery.of(
            column, self.query, k=self.num_nearest, metric=self.metric, distance_range=self.distance_range
        )
        use = IndexUse(self.use_index, self._probing(), self.refine_factor, self.fast_search, self.ef)
        if self.ef is not None and self.ef < query.k:
            raise InvalidInputError(f"ef is {self.ef} and k is {query.k}; ef must be at least k")
        return Search(
            query,
            self.columns,
            self.filter,
            self.prefilter,
            self.use_scalar_index,
            use,
            with_row_id=self.with_row_id,
            limit=self.limit,
            offset=self.offset or 0,
        )

    def _probing(self) -> Probing:
        if self.nprobes is None:
            return Probing(self.minimum_nprobes, self.maximum_nprobes)
        if self.minimum_nprobes is not None or self.maximum_nprobes is not None:
            raise InvalidInputError("nprobes sets both the minimum and the maximum; give either it or those")
        return Probing(self.nprobes, self.nprobes)
