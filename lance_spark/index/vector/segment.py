"""Searching one segment of a vector index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.ivf import IvfModel
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors
from lance_spark.index.vector.probing import Probing
from lance_spark.index.vector.storage import open_storage

UInt64Array = npt.NDArray[np.uint64]

LiveAddresses = Callable[[UInt64Array], tuple[UInt64Array, npt.NDArray[np.bool_]]]
"""Row ids of an index as (addresses uint64[n], whether a search may return the row bool[n])."""


@dataclass(frozen=True)
class VectorSegment:
    """One segment.

    Attributes:
        name: of the index.
        uuid: of the segment.
        fragment_ids: the fragments it was built for.
        files: its files.
        dimension: values of a vector.
    """

    name: str
    uuid: str
    fragment_ids: pyroaring.BitMap
    files: IndexFiles
    dimension: int

    @property
    def model(self) -> IvfModel:
        """Its centroids and metric.

        Raises:
            LanceError: a file is missing or broken, or the kind of index is not read.
        """
        return IvfModel.read(self.files, self.dimension)

    @property
    def is_exact(self) -> bool:
        """Whether its distances put rows in the right order."""
        return self.model.kind.endswith("_FLAT")

    def candidates(self, query: Vectors, count: int, k: int, probing: Probing, live: LiveAddresses) -> UInt64Array:
        """uint64[n]: the addresses of about the `count` nearest rows.

        Args:
            query: [d].
            count: how many.
            k: how many the user wants; decides how many partitions are searched.
            probing: limits of it.
            live: tells which rows count.

        Raises:
            LanceError: a file is missing or broken.
        """
        model = self.model
        storage = open_storage(self.files, model)
        wanted = query.astype(np.float32) if query.dtype != np.uint8 else query
        if model.metric is Metric.COSINE:
            length = np.linalg.norm(wanted.astype(np.float64))
            if not length > 0:
                return np.empty(0, np.uint64)
            wanted = (wanted / length).astype(np.float32)
        order, least = probing.order(model.distances(wanted), k, model.metric)
        found = _Found(live)
        for place, number in enumerate(order.tolist()):
            if place >= least and found.count(count) >= k:
                break
            if storage.partitions.lengths[number]:
                found.add(storage.distances(number, wanted), storage.rows(number).row_ids)
        return found.nearest(count)


class _Found:
    """Rows of the partitions that were read."""

    def __init__(self, live: LiveAddresses) -> None:
        self._live = live
        self._distances: list[Float32Array] = []
        self._row_ids: list[UInt64Array] = []

    def add(self, distances: Float32Array, row_ids: UInt64Array) -> None:
        self._distances.append(distances)
        self._row_ids.append(row_ids)

    def count(self, count: int) -> int:
        return len(self.nearest(count))

    def nearest(self, count: int) -> UInt64Array:
        """The live ones of the rows, nearest first, at most `count`."""
        if not self._distances:
            return np.empty(0, np.uint64)
        distances = np.concatenate(self._distances)
        row_ids = np.concatenate(self._row_ids)
        comparable = np.flatnonzero(~np.isnan(distances))
        looked_at = 2 * count
        while True:
            chosen = comparable
            if len(chosen) > looked_at:
                chosen = chosen[np.argpartition(distances[chosen], looked_at - 1)[:looked_at]]
            chosen = chosen[np.argsort(distances[chosen], kind="stable")]
            addresses, is_live = self._live(row_ids[chosen])
            if int(is_live.sum()) >= count or len(chosen) == len(comparable):
                return addresses[is_live][:count]
            looked_at *= 8
