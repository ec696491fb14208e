"""Search with the help of vector indexes. Rows of fragments without an index are read, and the distances are exact.

An index finds candidates; the vectors of the candidates are read from the table and compared. So a distance is the
same with and without an index, whatever the index has in place of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyroaring

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.index.segments import warn_unused
from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.nearest import Hits
from lance_spark.index.vector.opened import OpenedSegment
from lance_spark.index.vector.probing import Probing
from lance_spark.index.vector.segment import (
    Effort,
    LiveRows,
    Probed,
    VectorSegment,
    nearest_of_segment,
)
from lance_spark.schema.field import LanceSchema
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.vector_search.exact import ExactSearch
from lance_spark.table.vector_search.live_rows import infinite_rows, live_rows
from lance_spark.table.vector_search.query import VectorQuery
from lance_spark.table.vector_search.segments import chosen_segments

_REFINE_FACTOR = 4
"""Candidates of an index of codes for each row of the result; reading their vectors costs little beside the search."""

_VECTORS_OF_ROW = 10
"""Candidates among lists of vectors for each row of the result and each vector of the query, as the reference library
takes them."""

_MAX_FILTERED_ROWS = 20_000
"""So few rows that a filter leaves are compared directly."""


@dataclass(frozen=True)
class IndexUse:
    """Settings for the use of indexes in a search.

    Attributes:
        use_index: False compares all rows.
        probing: how many partitions of an index are searched.
        refine_factor: candidates for each row of the result; None for what suits the kind of index.
        fast_search: leaves out rows of fragments that the index does not cover.
        ef: nodes that a walk through the graph of an HNSW index keeps; None for what suits `k`.
        probed: to which the work of the search is added.
    """

    use_index: bool = True
    probing: Probing = field(default_factory=Probing)
    refine_factor: int | None = None
    fast_search: bool = False
    ef: int | None = None
    probed: Probed = field(default_factory=Probed, compare=False)

    def __post_init__(self) -> None:
        if self.refine_factor is not None and (type(self.refine_factor) is not int or self.refine_factor < 1):
            raise InvalidInputError(f"refine_factor is {self.refine_factor!r}; it must be at least 1")
        if self.ef is not None and (type(self.ef) is not int or self.ef < 1):
            raise InvalidInputError(f"ef is {self.ef!r}; it must be at least 1")

    def answers(self, query: VectorQuery) -> bool:
        """Whether indexes may answer a query.

        A range of distances is answered exactly, unless the query says how many partitions are probed. With a lower
        bound it always is: the nearest candidates of an index are those that the bound leaves out.
        """
        within = query.within
        if within.lower is not None:
            return False
        probes = self.probing.minimum is not None or self.probing.maximum is not None
        return self.use_index and (within.upper is None or probes)


def nearest_hits(
    scan: Scan,
    manifest: Manifest,
    query: VectorQuery,
    use: IndexUse,
    fragment_ids: pyroaring.BitMap | None = None,
    *,
    use_scalar_index: bool,
) -> list[Hits]:
    """The nearest rows of a version to each query.

    Args:
        scan: reads the column of vectors alone; its filter says which rows are searched.
        query: without a metric, that of the index decides.
        fragment_ids: the fragments whose rows are searched; None for all.
        use_scalar_index: whether the table's scalar indexes may answer the filter.
    """
    segments = chosen_segments(scan, manifest, query, use_index=use.answers(query))
    if query.metric_is_default and segments:
        query = query.with_metric(segments[0][0].metric)
    search = ExactSearch(scan, query)
    covered = pyroaring.BitMap()
    for segment, its_ids in segments:
        ids = (its_ids if fragment_ids is None else its_ids & fragment_ids) - covered
        if not ids and its_ids:
            continue
        try:
            segment_search = _SegmentSearch(scan, manifest, query, use, ids, use_scalar_index)
            found = segment_search.found(segment)
            infinite = segment_search.infinite_rows(segment, found)
        except LanceError as error:
            warn_unused(segment.name, segment.uuid, error)
            continue
        if isinstance(found, list):
            search.offer(found)
        elif isinstance(found, _RowsToCompare):
            search.read_rows(manifest, found.addresses, found.row_ids)
        elif not search.offer_candidates(manifest, found.hits):
            rows = _RowsToCompare.of(found.hits)
            search.read_rows(manifest, rows.addresses, rows.row_ids)
        if len(infinite):
            search.read_matching_rows(manifest, infinite)
        covered |= ids
        use.probed.segments += 1
        if segment.name not in use.probed.indexes:
            use.probed.indexes.append(segment.name)
    if not use.fast_search or not segments:
        searched = manifest.fragments.ids if fragment_ids is None else fragment_ids
        if others := searched - covered:
            fragments = [*manifest.fragments.with_ids(others)]
            search.read_fragments(manifest, fragments, use_scalar_index=use_scalar_index)
    use.probed.compared += search.num_rows
    return search.hits()


def metric_of_index(scan: Scan, manifest: Manifest, query: VectorQuery, use: IndexUse) -> Metric | None:
    """The metric of the index that answers a query that names none; None if no index does."""
    segments = chosen_segments(scan, manifest, query, use_index=use.answers(query))
    return segments[0][0].metric if segments else None


@dataclass(frozen=True)
class _RowsToCompare:
    """Rows that must be compared.

    Attributes:
        addresses: uint64[n], ascending, distinct.
        row_ids: uint64[n]; None if they are not known.
    """

    addresses: UInt64Array
    row_ids: UInt64Array | None

    @classmethod
    def of(cls, found: Sequence[Hits]) -> _RowsToCompare:
        """The rows that were found for some query."""
        addresses = np.concatenate([hits.addresses for hits in found])
        order = addresses.argsort(kind="stable")
        ascending, row_ids = addresses[order], np.concatenate([hits.row_ids for hits in found])[order]
        is_next = ascending[1:] != ascending[:-1]
        if np.count_nonzero(is_next) < len(is_next):
            (firsts,) = np.concatenate([[True], is_next]).nonzero()
            ascending, row_ids = ascending[firsts], row_ids[firsts]
        return cls(ascending, row_ids)


@dataclass(frozen=True)
class _Candidates:
    """Rows that must be compared, for each query; their distances are estimates."""

    hits: list[Hits]


@dataclass(frozen=True)
class _SegmentSearch:
    """A search in one segment.

    Attributes:
        fragment_ids: the fragments that the segment answers for.
    """

    scan: Scan
    manifest: Manifest
    query: VectorQuery
    use: IndexUse
    fragment_ids: pyroaring.BitMap
    use_scalar_index: bool

    def found(self, segment: VectorSegment) -> list[Hits] | _RowsToCompare | _Candidates:
        """The nearest rows to each query, or candidates that must be compared.

        Raises:
            LanceError: the segment is broken, or of a kind that is not read.
        """
        opened = segment.opened()
        allowed = self._allowed()
        query = self.query
        if allowed is not None and len(allowed) <= max(_MAX_FILTERED_ROWS, query.k):
            return _RowsToCompare(allowed, None)
        live = live_rows(self.manifest, self.fragment_ids, segment, self.scan, allowed)
        factor = self.use.refine_factor or (1 if opened.has_exact_order else _REFINE_FACTOR)
        effort = Effort(query.k, query.k * factor, self.use.probing, self.use.ef)
        if query.column.is_multivector:
            return self._rows_of_vectors(opened, live)
        found = [nearest_of_segment(opened, vector, effort, live, self.use.probed) for vector in query.vectors]
        return found if opened.has_exact_distances else _Candidates(found)

    def infinite_rows(self, segment: VectorSegment, found: list[Hits] | _RowsToCompare | _Candidates) -> UInt64Array:
        """uint64[n], ascending: rows that can be among the nearest beside those that were found. No index has vectors
        with an infinity: by dot they can come first, by l2 they come last, by cosine they have no distance.

        Raises:
            LanceError: a file is missing or broken.
        """
        query = self.query
        is_wanted = query.metric is Metric.DOT
        if query.metric is Metric.L2 and query.within.upper is None and self.use.probing.maximum is None:
            hits = found.hits if isinstance(found, _Candidates) else found if isinstance(found, list) else []
            is_wanted = any(len(some.distances) < query.k for some in hits)
        # Of the rows that a filter leaves all are compared where they are few.
        if not is_wanted or isinstance(found, _RowsToCompare) or self.use.fast_search:
            return np.empty(0, np.uint64)
        return infinite_rows(self.manifest, self.fragment_ids, segment, self.scan)

    def _rows_of_vectors(self, opened: OpenedSegment, live: LiveRows) -> _RowsToCompare:
        """Candidates for a query of several vectors: the rows that have one of the nearest vectors to one of them.

        A row can have many of them, so more vectors are asked for until there are k rows, or no more vectors.
        """
        query = self.query
        count = query.k * max(self.use.refine_factor or 0, _VECTORS_OF_ROW)
        while True:
            effort = Effort(count, count, self.use.probing, self.use.ef)
            found = [nearest_of_segment(opened, vector, effort, live, self.use.probed) for vector in query.vectors]
            rows = _RowsToCompare.of(found)
            if len(rows.addresses) >= query.k or max(len(hits.addresses) for hits in found) < count:
                return rows
            count *= 4

    def _allowed(self) -> UInt64Array | None:
        """uint64[n], ascending: the addresses of the rows for which the filter is true; None without filter."""
        scan = self.scan
        if scan.filter is None:
            return None
        plan = replace(scan.returning(LanceSchema((), scan.schema.metadata), (ROW_ADDRESS,)), uncut=True)
        candidates = Candidates.of(plan, self.manifest, use_scalar_index=self.use_scalar_index)
        found = [np.empty(0, np.uint64)]
        for fragment in self.manifest.fragments.with_ids(self.fragment_ids):
            found += [batch.column(0).to_numpy() for batch in candidates.read([fragment])]
        return np.sort(np.concatenate(found))
