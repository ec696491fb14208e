"""Searching one segment of a vector index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.cached import cached_property
from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.metrics import Float32Array, Int64Array, Metric, Vectors, distances_of_parts
from lance_spark.index.vector.nearest import NO_HITS, Hits
from lance_spark.index.vector.opened import OpenedSegment, open_segment
from lance_spark.index.vector.probing import Probing
from lance_spark.index.vector.storage import GraphNodes, Partition, Parts, Scorer
from lance_spark.index.vector.stored.graph import Graph, Graphs
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.vector_codes import nearest_rows

UInt64Array = npt.NDArray[np.uint64]

_LEAST_EFFORT = 50
"""Nodes that a walk through a graph keeps, if the user does not say how many; a few more cost next to nothing."""

_SCANNED_SHARE = 0.1
"""If fewer of the rows of a partition count, all are compared: a walk would visit most of them in vain."""


_BATCH_BYTES = 64 << 20
"""About how many bytes of vectors or codes are in memory at a time beside those that are cached."""


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
    """Search effort: numbers of candidates, partitions and graph nodes.

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
    """Work of a search, in counts, for plans.

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

    @cached_property
    def metric(self) -> Metric:
        """Its metric, which is read from its files once. Raises as `opened`."""
        return self.opened().model.metric


def nearest_of_segment(
    opened: OpenedSegment, query: Vectors, effort: Effort, live: LiveRows, probed: Probed | None = None
) -> Hits:
    """About the `effort.count` nearest rows of a segment; their distances are estimates unless
    `OpenedSegment.has_exact_distances`.

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
            return NO_HITS
        wanted = (wanted / length).astype(np.float32)
    if len(model.centroids) == 1:
        order, least = np.zeros(1, np.int64), 1
    else:
        order, least = effort.probing.order(model.distances(wanted), effort.k, model.metric)
    search = _PartitionSearch(opened, opened.storage.scorer(wanted), wanted, effort, live)
    found = NO_HITS
    place = 0
    while place < len(order):
        stop = min(max(least, 2 * place), len(order))
        for numbers in _batches(order[place:stop], opened):
            search.add(numbers)
        place = stop
        found = search.nearest()
        if len(found.distances) >= effort.k:
            break
    if probed is not None:
        probed.partitions += place
        probed.of_partitions += len(model.centroids)
        probed.rows += search.num_rows
    return found


def _batches(order: Int64Array, opened: OpenedSegment) -> Iterator[list[int]]:
    """The partitions of `order` that have rows, as many at a time as fit into memory."""
    lengths = opened.storage.partitions.lengths
    if len(order) == 1:
        number = int(order[0])
        if lengths[number]:
            yield [number]
        return
    lengths = lengths[order]
    filled, lengths = order[lengths > 0], lengths[lengths > 0]
    most = max(1, _BATCH_BYTES // opened.storage.row_bytes)
    if len(filled) < 2 or int(np.add.reduce(lengths)) <= most:
        if len(filled):
            yield filled.tolist()
        return
    batch_of = np.cumsum(lengths) // most
    for batch in np.split(filled, np.flatnonzero(np.diff(batch_of)) + 1):
        if len(batch):
            yield batch.tolist()


class _PartitionSearch:
    """Rows of the partitions that were searched."""

    def __init__(self, opened: OpenedSegment, scorer: Scorer, query: Vectors, effort: Effort, live: LiveRows) -> None:
        self._opened = opened
        self._scorer = scorer
        self._query = query
        self._effort = effort
        self._live = live
        self._looked_at = 2 * effort.count if live.may_exclude else effort.count
        self._compared: list[list[int]] = []
        self._found = _Found()

    def add(self, numbers: list[int]) -> None:
        """Searches some partitions."""
        partitions = self._opened.storage.rows(numbers)
        if self._opened.graphs is None:
            self._compared.append(numbers)
            self._compare(numbers, partitions, self._looked_at)
            return
        for number, rows in zip(numbers, partitions, strict=True):
            self._walk(self._opened.graphs, number, rows)

    def _compare(self, numbers: list[int], partitions: list[Partition], count: int | None) -> None:
        parts = Parts.of(numbers, partitions)
        estimates = self._scorer.distances(parts, count)
        starts = address_of(estimates) + (parts.lengths.cumsum() - parts.lengths) * estimates.itemsize
        ids = [rows.ids_address for rows in partitions]
        self._found.add(starts.tolist(), ids, parts.lengths.tolist(), (estimates, partitions))

    def _walk(self, graphs: Graphs, number: int, rows: Partition) -> None:
        row_ids = rows.row_ids
        if len(row_ids) <= self._effort.nodes:
            self._compare([number], [rows], None)
            return
        returned = self._live(row_ids)[1] if self._live.may_exclude else None
        if returned is not None and np.count_nonzero(returned) <= max(
            self._effort.nodes, _SCANNED_SHARE * len(row_ids)
        ):
            self._compare_all(number, rows, returned)
            return
        walk = _Walk(graphs, number, graphs.graph(number, len(row_ids)), self._effort.nodes, returned)
        estimates, places = walk.nearest(self._scorer.nodes(number, rows))
        if len(places) < walk.effort:
            # The links do not lead to all nodes.
            self._compare_all(number, rows, returned)
            return
        if self._opened.has_exact_distances:
            estimates = self._distances(rows, places)
        self._found.add_block(estimates, row_ids[places])

    def _compare_all(self, number: int, rows: Partition, returned: npt.NDArray[np.bool_] | None) -> None:
        estimates, row_ids = self._scorer.distances(Parts.of([number], [rows])), rows.row_ids
        if returned is not None:
            estimates, row_ids = estimates[returned], row_ids[returned]
        self._found.add_block(estimates, row_ids)

    def _distances(self, rows: Partition, places: Int64Array) -> Float32Array:
        """float32[n]: of the vectors at some places of a partition."""
        query = self._query.astype(rows.payload.dtype, copy=False)
        addresses = rows.address + places * rows.payload.strides[0]
        return distances_of_parts(self._opened.storage.metric, addresses, np.ones(len(places), np.int64), query)

    @property
    def num_rows(self) -> int:
        """Rows that were compared."""
        return self._found.num_rows

    def nearest(self) -> Hits:
        """The nearest ones of the rows that a search may return, at most `effort.count`."""
        if not self.num_rows:
            return NO_HITS
        count = self._effort.count
        while True:
            estimates, row_ids = self._found.first(self._looked_at)
            addresses, is_live = self._live(row_ids)
            (live,) = is_live.nonzero()
            if len(row_ids) < self._looked_at or len(live) >= count:
                if len(live) < len(row_ids):
                    estimates, row_ids, addresses = estimates[live], row_ids[live], addresses[live]
                return Hits(estimates[:count], row_ids[:count], addresses[:count])
            self._look_at_more()

    def _look_at_more(self) -> None:
        """Looks at more rows: too few of the nearest may be returned, and distances of others may not be known."""
        self._looked_at *= 8
        if self._opened.graphs is None:
            self._found = _Found()
            for numbers in self._compared:
                self._compare(numbers, self._opened.storage.rows(numbers), self._looked_at)


@dataclass(frozen=True)
class _Walk:
    """A walk through the graph of a partition.

    Attributes:
        graphs: the graphs of the segment.
        number: of the partition.
        graph: its graph.
        effort: nodes that are kept.
        returned: bool[nodes]: those that can be results; None for all.
    """

    graphs: Graphs
    number: int
    graph: Graph
    effort: int
    returned: npt.NDArray[np.bool_] | None

    def nearest(self, nodes: GraphNodes) -> tuple[Float32Array, Int64Array]:
        """(distances, nodes) of those that are found.

        Raises:
            CorruptFileError: the graph is broken.
        """
        found = self.graph.nearest(nodes, self.effort, self.returned)
        if found is None:
            raise self.graphs.file.damaged(f"an edge of the graph of partition {self.number} leads nowhere")
        return found


class _Found:
    """Rows that were compared, in blocks: the addresses of their distances and row ids, and how many they are."""

    def __init__(self) -> None:
        self.num_rows = 0
        self._estimates: list[int] = []
        self._row_ids: list[int] = []
        self._lengths: list[int] = []
        # What the addresses lead to.
        self._kept: list[object] = []

    def add(self, estimates: list[int], row_ids: list[int], lengths: list[int], kept: object) -> None:
        """Adds blocks, which stay in memory with `kept`."""
        self._estimates += estimates
        self._row_ids += row_ids
        self._lengths += lengths
        self._kept.append(kept)
        self.num_rows += sum(lengths)

    def add_block(self, estimates: Float32Array, row_ids: UInt64Array, num_compared: int | None = None) -> None:
        """Adds one block of contiguous arrays, the nearest of `num_compared` rows; None if they are all."""
        self.add([address_of(estimates)], [address_of(row_ids)], [len(row_ids)], (estimates, row_ids))
        if num_compared is not None:
            self.num_rows += num_compared - len(row_ids)

    def first(self, count: int) -> tuple[Float32Array, UInt64Array]:
        """(distances, row ids) of the `count` nearest rows at most, nearest first, then by row id."""
        room = min(count, self.num_rows)
        keys, rows = np.empty(room, np.float32), np.empty(room, np.uint64)
        blocks = np.array([self._estimates, self._row_ids, self._lengths], np.int64)
        start = address_of(blocks)
        number = nearest_rows(
            start,
            start + blocks.strides[0],
            start + 2 * blocks.strides[0],
            blocks.shape[1],
            room,
            address_of(keys),
            address_of(rows),
        )
        return keys[:number], rows[:number]
