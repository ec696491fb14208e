"""Searching one segment of a vector index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors, distances
from lance_spark.index.vector.nearest import Hits, bound_of_least
from lance_spark.index.vector.opened import OpenedSegment, open_segment
from lance_spark.index.vector.probing import Probing
from lance_spark.index.vector.storage import Scorer
from lance_spark.storage.cache import cached_part

UInt64Array = npt.NDArray[np.uint64]

_LEAST_EFFORT = 50
"""Nodes that a walk through a graph keeps, if the user does not say how many; a few more cost next to nothing."""

_SCANNED_SHARE = 0.1
"""If fewer of the rows of a partition count, all are compared: a walk would visit most of them in vain."""


_METRIC_BYTES = 64
"""What a cached metric takes, with its key."""


class LiveRows(Protocol):
    """Tells which rows of an index a search may return.

    Attributes:
        may_exclude: whether there can be a row of the index that it may not return.
    """

    @property
    def may_exclude(self) -> bool: ...

    def __call__(self, row_ids: UInt64Array, /) -> tuple[UInt64Array, npt.NDArray[np.bool_]]:
        """(the addresses of rows, uint64[n]; whether a search may return the row, bool[n])."""
        ...


@dataclass(frozen=True)
class Effort:
    """How thoroughly an index is searched.

    Attributes:
        k: rows that the user wants; decides how many partitions are searched.
        count: candidates.
        probing: limits of the number of partitions.
        ef: nodes that a walk through a graph keeps; None for what suits `count`.
    """

    k: int
    count: int
    probing: Probing
    ef: int | None = None

    @property
    def nodes(self) -> int:
        """Nodes that a walk through a graph keeps."""
        return max(self.count, self.ef or max(_LEAST_EFFORT, self.count * 3 // 2))


@dataclass
class Probed:
    """What a search has read, for plans.

    Attributes:
        indexes: the names of the indexes that it used.
        segments: segments of indexes that it searched.
        partitions: partitions that were searched, counted for each query.
        of_partitions: partitions that there are, counted in the same way.
        rows: rows of indexes that were compared.
        compared: rows of the table that were compared.
    """

    indexes: list[str] = field(default_factory=list)
    segments: int = 0
    partitions: int = 0
    of_partitions: int = 0
    rows: int = 0
    compared: int = 0

    def add(self, other: Probed) -> None:
        """Adds the work of a piece of the search."""
        self.indexes += [name for name in other.indexes if name not in self.indexes]
        self.segments += other.segments
        self.partitions += other.partitions
        self.of_partitions += other.of_partitions
        self.rows += other.rows
        self.compared += other.compared

    def metrics(self) -> dict[str, int]:
        """The counts by the names of Spark's metrics."""
        return {
            "index_segments_searched": self.segments,
            "index_partitions_probed": self.partitions,
            "index_rows_compared": self.rows,
            "rows_compared": self.compared,
        }

    def __str__(self) -> str:
        if not self.indexes:
            return f"index=none compared={self.compared}"
        return (
            f"index={','.join(self.indexes)} partitions={self.partitions} of {self.of_partitions}"
            f" index_rows={self.rows} compared={self.compared}"
        )


@dataclass(frozen=True)
class VectorSegment:
    """One segment.

    Attributes:
        name: of the index.
        uuid: of the segment.
        fragment_ids: the fragments it was built for.
        files: its files.
        dimension: values of a vector.
        dataset_version: the version whose rows it was built from.
    """

    name: str
    uuid: str
    fragment_ids: pyroaring.BitMap
    files: IndexFiles
    dimension: int
    dataset_version: int = 0

    def opened(self) -> OpenedSegment:
        """Its files.

        Raises:
            LanceError: a file is missing or broken, or the kind of index is not read.
        """
        return open_segment(self.files, self.dimension)

    @property
    def metric(self) -> Metric:
        """Its metric, which is read from its files once. Raises as `opened`."""

        def read() -> tuple[Metric, int]:
            return self.opened().model.metric, _METRIC_BYTES

        return cached_part(self, "metric", read)


def has_exact_distances(opened: OpenedSegment) -> bool:
    """Whether the distances of a segment are those of the table's own vectors, to the last bit."""
    return opened.model.kind.endswith("_FLAT") and opened.model.metric is not Metric.COSINE


def has_exact_order(opened: OpenedSegment) -> bool:
    """Whether the distances of a segment put rows in the right order."""
    return opened.model.kind.endswith("_FLAT")


def nearest_of_segment(
    opened: OpenedSegment, query: Vectors, effort: Effort, live: LiveRows, probed: Probed | None = None
) -> Hits:
    """About the `effort.count` nearest rows of a segment; their distances are estimates unless `has_exact_distances`.

    Args:
        query: [d].
        live: which rows count.
        probed: to which the work is added.

    Raises:
        LanceError: a file is missing or broken.
    """
    model = opened.model
    wanted = query.astype(np.float32) if query.dtype == np.float16 else query
    if model.metric is Metric.COSINE:
        length = np.linalg.norm(wanted.astype(np.float64))
        if not length > 0:
            return _NO_HITS
        wanted = (wanted / length).astype(np.float32)
    order, least = effort.probing.order(model.distances(wanted), effort.k, model.metric)
    search = _PartitionSearch(opened, opened.storage.scorer(wanted), wanted, effort, live)
    found = _NO_HITS
    place = 0
    while place < len(order):
        stop = min(max(least, 2 * place), len(order))
        for number in order[place:stop].tolist():
            if opened.storage.partitions.lengths[number]:
                search.add(number)
        place = stop
        found = search.nearest()
        if len(found.distances) >= effort.k:
            break
    if probed is not None:
        probed.partitions += place
        probed.of_partitions += len(model.centroids)
        probed.rows += search.num_rows
    return found


_NO_HITS = Hits(np.empty(0, np.float32), np.empty(0, np.uint64), np.empty(0, np.uint64))


class _PartitionSearch:
    """Rows of the partitions that were searched."""

    def __init__(self, opened: OpenedSegment, scorer: Scorer, query: Vectors, effort: Effort, live: LiveRows) -> None:
        self._opened = opened
        self._scorer = scorer
        self._query = query
        self._effort = effort
        self._live = live
        self._distances: list[Float32Array] = []
        self._row_ids: list[UInt64Array] = []
        self.num_rows = 0

    def add(self, number: int) -> None:
        """Searches partition `number`."""
        rows = self._opened.storage.rows(number)
        row_ids = rows.row_ids
        graphs = self._opened.graphs
        if graphs is None or len(row_ids) <= self._effort.nodes:
            self._take(self._scorer.distances(number, rows), row_ids)
            return
        returned = self._live(row_ids)[1] if self._live.may_exclude else None
        if returned is not None and int(returned.sum()) <= max(self._effort.nodes, _SCANNED_SHARE * len(row_ids)):
            self._take(self._scorer.distances(number, rows)[returned], row_ids[returned])
            return
        nodes = self._scorer.nodes(number, rows)
        found = graphs.graph(number, len(row_ids)).nearest(nodes, self._effort.nodes, returned)
        if found is None:
            raise graphs.file.damaged(f"an edge of the graph of partition {number} leads nowhere")
        estimates, places = found
        if has_exact_distances(self._opened):
            vectors = rows.payload[places]
            estimates = distances(self._opened.storage.metric, vectors, self._query.astype(vectors.dtype, copy=False))
        self._take(estimates, row_ids[places])

    def _take(self, estimates: Float32Array, row_ids: UInt64Array) -> None:
        self._distances.append(estimates)
        self._row_ids.append(row_ids)
        self.num_rows += len(row_ids)

    def nearest(self) -> Hits:
        """The nearest ones of the rows that a search may return, at most `effort.count`."""
        if not self._distances:
            return _NO_HITS
        estimates = np.concatenate(self._distances)
        row_ids = np.concatenate(self._row_ids)
        count = self._effort.count
        looked_at = 2 * count if self._live.may_exclude else count
        while True:
            bound, number = bound_of_least(estimates, looked_at)
            chosen = np.flatnonzero(estimates <= bound)
            chosen = chosen[np.lexsort((row_ids[chosen], estimates[chosen]))]
            addresses, is_live = self._live(row_ids[chosen])
            if int(is_live.sum()) >= count or number < looked_at:
                kept = chosen[is_live][:count]
                return Hits(estimates[kept], row_ids[kept], addresses[is_live][:count])
            looked_at *= 8
