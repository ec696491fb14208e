"""FLAT: the vectors themselves, and in memory a quantized copy of them that prunes the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors, computed_type, distances_of_parts
from lance_spark.index.vector.storage import GraphNodes, Partition, Parts, Scorer
from lance_spark.index.vector.stored.mapped import MappedStorage
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.byte_bounds import PANEL_ROWS, copy_in_bytes, near_by_bytes
from lance_spark.kernels.vector.vector_graph import CODES_SQUARED_L2, DOT, SQUARED_L2
from lance_spark.storage.cache import cached_parts, shared

_MIN_VALUES = 1 << 19
"""Fewer values are compared in less time than it takes to find out which of them have to be."""

_NEAR_SHARE = 0.1
"""If more of the rows are asked for, all are compared."""

_MAX_DIMENSION = 1 << 15
"""Sums of squared bytes of more values would leave 32 bits."""


class ByteCopy:
    """A quantized copy of a partition, a byte a value.

    It is made when the partition is compared a second time: a first search would take half as long again.

    Attributes:
        addresses: of the arrays of `copy_in_bytes`; zeros until it is made.

    Args:
        num_rows, dimension: of the partition.
    """

    def __init__(self, num_rows: int, dimension: int) -> None:
        self._panels = (-(-num_rows // PANEL_ROWS), 4 * -(-dimension // 8), PANEL_ROWS, 2)
        self._num_rows = num_rows
        self._is_wanted = False
        self._arrays: tuple[npt.NDArray[Any], ...] = ()
        self.addresses: tuple[int, ...] = (0,) * 5

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays about, also before it is made."""
        return int(np.prod(self._panels)) + 8 * self._num_rows

    def want(self, rows: Partition, center: Vectors) -> None:
        """Makes the copy at the second call.

        Args:
            rows: of vectors, float32[n, d].
            center: [d]: any vector near to them.
        """
        if self._is_wanted and not self._arrays:
            self.make(rows, center)
        self._is_wanted = True

    def make(self, rows: Partition, center: Vectors) -> None:
        """Makes the copy; see `want`."""
        num_rows, dimension = rows.payload.shape
        squares, errors, scale = np.empty(num_rows, np.int32), np.empty(num_rows, np.float32), np.empty(3)
        arrays = (np.zeros(self._panels, np.uint8), squares, errors, scale, center.astype(np.float32))
        addresses = tuple(address_of(array) for array in arrays)
        copy_in_bytes(rows.address, num_rows, dimension, addresses[4], *addresses[:4])
        self._arrays = arrays
        # Another thread can use the copy from here on.
        self.addresses = addresses


@dataclass(frozen=True)
class FlatStorage(MappedStorage):
    """The vectors themselves, normalized for cosine."""

    def column_types(self) -> dict[str, pa.DataType]:
        centroids = self.model.centroids
        return {"flat": pa.list_(pa.from_numpy_dtype(centroids.dtype), centroids.shape[1])}

    def partition(self, row_ids: npt.NDArray[np.uint64], columns: Sequence[npt.NDArray[Any]]) -> Partition:
        return Partition(row_ids, np.ascontiguousarray(columns[0], computed_type(columns[0].dtype)))

    @cached_property
    def has_copies(self) -> bool:
        """Whether partitions may have copies: if all of them, with the vectors in memory, fit into the cache."""
        dimension = self.model.centroids.shape[1]
        row_bytes = dimension + self._stored_bytes
        fits = int(self.partitions.lengths.sum()) * row_bytes <= 3 * shared.max_bytes // 4
        is_float = computed_type(self.model.centroids.dtype) == np.float32
        return fits and is_float and dimension <= _MAX_DIMENSION and not self.model.has_graph

    def copies(self, parts: Parts) -> list[ByteCopy]:
        """The copies of partitions that are compared now; those of the ones that were compared before are made."""

        def make(missing: Sequence[int]) -> list[tuple[ByteCopy, int]]:
            lengths, dimension = self.partitions.lengths[[*missing]].tolist(), self.model.centroids.shape[1]
            return [(copy, copy.num_bytes) for copy in [ByteCopy(length, dimension) for length in lengths]]

        copies = cached_parts(self._owner, "copies", parts.numbers, make)
        for number, rows, copy in zip(parts.numbers, parts.partitions, copies, strict=True):
            copy.want(rows, self.model.centroids[number])
        return copies

    def scorer(self, query: Vectors) -> Scorer:
        return _FlatScorer(self, query)


@dataclass(frozen=True)
class _FlatScorer(Scorer):
    storage: FlatStorage
    query: Vectors

    def distances(self, parts: Parts, count: int | None = None) -> Float32Array:
        query = self.query.astype(computed_type(self.storage.model.centroids.dtype), copy=False)
        num_rows = parts.num_rows
        is_pruned = count is not None and count <= _NEAR_SHARE * num_rows and num_rows * len(query) >= _MIN_VALUES
        if count is not None and is_pruned and self.storage.has_copies:
            # The cache can give the copies up while they are compared.
            copies = self.storage.copies(parts)
            addresses = np.array([copy.addresses for copy in copies], np.int64)
            if addresses.any():
                return self._of_near(parts, addresses, np.ascontiguousarray(query), count)
        return distances_of_parts(self.storage.metric, parts.addresses, parts.lengths, query)

    def _of_near(self, parts: Parts, copies: npt.NDArray[np.int64], query: Float32Array, count: int) -> Float32Array:
        """The distances of rows that can be among the `count` nearest, NaN for the others."""
        num_rows = parts.num_rows
        places, addresses = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64)
        out = np.empty(num_rows, np.float32)
        number = near_by_bytes(
            address_of(parts.addresses),
            address_of(copies),
            address_of(parts.lengths),
            len(parts.lengths),
            len(query),
            address_of(query),
            self.storage.metric is Metric.DOT,
            count,
            address_of(out),
            address_of(places),
            address_of(addresses),
        )
        near = distances_of_parts(self.storage.metric, addresses[:number], np.ones(number, np.int64), query)
        out.fill(np.nan)
        out[places[:number]] = near
        return out

    def nodes(self, number: int, rows: Partition) -> GraphNodes:
        vectors = rows.payload
        if self.storage.metric is Metric.HAMMING:
            bits = np.unpackbits(vectors, axis=1)
            wanted = np.unpackbits(self.query).astype(np.float32)
            return GraphNodes(CODES_SQUARED_L2, bits, bits.shape[1], wanted)
        payload = np.ascontiguousarray(vectors, np.float32)
        query = self.query.astype(np.float32, copy=False)
        if self.storage.metric is Metric.DOT:
            return GraphNodes(DOT, payload, payload.shape[1], query, offset=1)
        return GraphNodes(SQUARED_L2, payload, payload.shape[1], query)
