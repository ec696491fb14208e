"""Hybrid search: the rows that a vector search and a full-text search find, in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.values import no_rows
from lance_spark.index.text.queries import TextQuery
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ID
from lance_spark.table.search.result_columns import check_added_columns
from lance_spark.table.search.text_columns import KnownRows
from lance_spark.table.search.text_search import (
    SCORE_FIELD,
    SearchedPart,
    SearchRequest,
    best_places,
    found_rows,
)
from lance_spark.table.vector_search.defaults import DEFAULT_RRF_K
from lance_spark.table.vector_search.query import DISTANCE
from lance_spark.table.vector_search.search import Part, Search

RELEVANCE = "_relevance_score"
FUSIONS = ("rrf", "linear")
_ADDED = (
    pa.field(DISTANCE, pa.float32()),
    SCORE_FIELD,
    pa.field(RELEVANCE, pa.float32(), nullable=False),
)
ADDED_BY_HYBRID_SEARCH = tuple(added.name for added in _ADDED)


@dataclass(frozen=True)
class Fusion:
    """Fusion of the results of the two sides.

    Attributes:
        kind: ``rrf`` (reciprocal ranks) or ``linear`` (weighted scores).
        rrf_k: added to each rank, which counts from 0; large numbers make the first ranks less important.
        vector_weight: of the vector side in a linear fusion, 0 to 1; the text side has the rest.
    """

    kind: str = "rrf"
    rrf_k: float = DEFAULT_RRF_K
    vector_weight: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in FUSIONS:
            raise InvalidInputError(f"there is no fusion {self.kind!r}; use one of {', '.join(FUSIONS)}")
        if not self.rrf_k > 0:
            raise InvalidInputError(f"rrf_k is {self.rrf_k}; it must be greater than 0")
        if not 0 <= self.vector_weight <= 1:
            raise InvalidInputError(f"vector_weight is {self.vector_weight}; it must be from 0 to 1")

    def relevance(self, side: _Side, weight: float) -> npt.NDArray[np.float64]:
        """float64[n]: what the rows of one side, best first, contribute."""
        if self.kind == "rrf":
            return 1 / (np.arange(len(side.values)) + self.rrf_k)
        worst, best = side.values[-1:].sum(), side.values[:1].sum()
        span = best - worst
        share = (side.values - worst) / span if span else np.ones(len(side.values))
        return weight * share


@dataclass(frozen=True)
class _Side:
    """The candidates of one side, best first.

    Attributes:
        parts: int64[n]: in which part of the table a row is.
        addresses: uint64[n].
        values: float64[n], greater is better.
        shown: float32[n]: distances or scores.
    """

    parts: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.uint64]
    values: npt.NDArray[np.float64]
    shown: npt.NDArray[np.float32]


@dataclass(frozen=True)
class HybridSearch:
    """Query and limits of a hybrid search.

    Attributes:
        vector: the vector side, with the columns and the filter of the whole search; its `k` is the number of
            candidates of each side.
        text: words, or a query.
        search_columns: where words are searched; None for all columns of text.
        fusion: how the sides are joined.
        limit: rows of the result.
        offset: after leaving out this many.
        known: same as `SearchRequest.known`, for the texts.
    """

    vector: Search
    text: str | TextQuery
    search_columns: Sequence[str] | None
    fusion: Fusion
    limit: int
    offset: int
    known: Mapping[str | None, Mapping[str, KnownRows]] = field(default_factory=dict)

    def text_request(self) -> SearchRequest:
        """Search request of the text side."""
        return SearchRequest(
            self.text,
            self.search_columns,
            self.vector.query.k,
            use_index=self.vector.index.use_index,
            known=self.known,
        )

    def run(self, parts: Sequence[SearchedPart], schema: pa.Schema) -> pa.Table:
        """The rows that either side finds, most relevant first.

        Args:
            parts: the table, or its partitions.
            schema: of the columns that are read.
        """
        hybrid_schema(schema)
        sides = [self._vectors(parts), self._texts(parts)]
        weights = [self.fusion.vector_weight, 1 - self.fusion.vector_weight]
        owners = np.concatenate([side.parts for side in sides])
        addresses = np.concatenate([side.addresses for side in sides])
        keys = np.rec.fromarrays([owners, addresses])
        _, first, places = np.unique(keys, return_index=True, return_inverse=True)
        relevance = np.zeros(len(first))
        shown = np.full((2, len(first)), np.nan, np.float32)
        start = 0
        for number, (side, weight) in enumerate(zip(sides, weights, strict=True)):
            mine = places[start : start + len(side.parts)]
            relevance[mine] += self.fusion.relevance(side, weight)
            shown[number, mine] = side.shown
            start += len(side.parts)
        order = np.argsort(-relevance, kind="stable")[self.offset : self.offset + self.limit]
        chosen = first[order]
        rows = _read(parts, schema, owners[chosen], addresses[chosen])
        added = [*(pa.array(values[order], pa.float32(), from_pandas=True) for values in shown)]
        return _named(rows, [*added, pa.array(relevance[order].astype(np.float32))])

    def vector_parts(self, parts: Sequence[SearchedPart]) -> list[Part]:
        """The parts that the vector side searches."""
        return [_vector_part(part, self.vector.query.column.name) for part in parts if part.may_match]

    def _vectors(self, parts: Sequence[SearchedPart]) -> _Side:
        found = self.vector.nearest_of_parts(self.vector_parts(parts))
        hits = [part[0] for part in found]
        searched = np.flatnonzero([part.may_match for part in parts])
        owners = np.repeat(searched, [len(hit.distances) for hit in hits])
        distances = np.concatenate([np.empty(0, np.float32), *(hit.distances for hit in hits)])
        addresses = np.concatenate([np.empty(0, np.uint64), *(hit.addresses for hit in hits)])
        order = np.argsort(distances, kind="stable")
        return _Side(owners[order], addresses[order], -distances[order].astype(np.float64), distances[order])

    def _texts(self, parts: Sequence[SearchedPart]) -> _Side:
        found = [rows.by_row() for rows in found_rows(self.text_request(), parts)]
        owners = np.repeat(np.arange(len(found)), [len(rows.scores) for rows in found])
        scores = np.concatenate([np.empty(0, np.float32), *(rows.scores for rows in found)])
        addresses = np.concatenate([np.empty(0, np.uint64), *(rows.addresses for rows in found)])
        best = best_places(scores, self.vector.query.k, None)
        return _Side(owners[best], addresses[best], scores[best].astype(np.float64), scores[best])


def hybrid_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a result whose data columns have this schema.

    Raises:
        InvalidInputError: one of them has a name that the search adds.
    """
    check_added_columns(schema, ADDED_BY_HYBRID_SEARCH)
    fields = [field for field in schema if field.name != ROW_ID]
    return pa.schema([*fields, *_ADDED, *(field for field in schema if field.name == ROW_ID)], schema.metadata)


def _vector_part(part: SearchedPart, column: str) -> Part:
    def scan(_columns: object, _filter: object, /) -> Scan:
        plan = part.scan
        return Scan.of(
            plan.schema,
            plan.bases,
            columns=[column],
            filter=plan.filter,
            stable_row_ids=plan.stable_row_ids,
            time_zone=plan.time_zone,
        )

    manifest: Manifest = part.manifest
    return Part(manifest, scan, part.key)


def _read(
    parts: Sequence[SearchedPart],
    schema: pa.Schema,
    owners: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
) -> pa.Table:
    """The rows at these addresses of these parts, in this order."""
    tables = [part.read(addresses[owners == number]) for number, part in enumerate(parts)]
    table = pa.concat_tables([pa.Table.from_batches([no_rows(schema)]), *tables])
    places = np.argsort(np.argsort(owners, kind="stable"), kind="stable")
    return pa.table([take_chunked(table.column(name), places) for name in schema.names], schema=schema)


def _named(rows: pa.Table, added: Sequence[pa.Array]) -> pa.Table:
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns |= dict(zip(ADDED_BY_HYBRID_SEARCH, added, strict=True))
    schema = hybrid_schema(rows.schema)
    return pa.table([columns[field.name] for field in schema], schema=schema)
