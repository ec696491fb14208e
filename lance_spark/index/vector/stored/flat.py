"""FLAT: the vectors themselves, and in memory a quantized copy of them that prunes the comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors, computed_type, distances_of_parts
from lance_spark.index.vector.storage import GraphNodes, MappedStorage, Partition, Parts, Scorer, UInt64Array
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.byte_bounds import PANEL_ROWS, copy_in_bytes, near_by_bytes
from lance_spark.kernels.vector.vector_graph import CODES_SQUARED_L2, DOT, SQUARED_L2
from lance_spark.storage.cache import shared

_MIN_VALUES = 1 << 19
"""Fewer values are compared in less time than it takes to find out which of them have to be."""

_NEAR_SHARE = 0.1
"""If more of the rows are asked for, all are compared."""

_MAX_DIMENSION = 1 << 15
"""Sums of squared bytes of more values would leave 32 bits."""


class ByteCopy(NamedTuple):
    """A quantized copy of a partition, a byte a value.

    Attributes:
        arrays: (panels, squares, errors, scale, center) of `copy_in_bytes`.
        addresses: of the arrays.
    """

    arrays: tuple[npt.NDArray[Any], ...]
    addresses: tuple[int, ...]

    @classmethod
    def of(cls, rows: Partition, center: Vectors) -> ByteCopy:
        """The copy of vectors, float32[n, d].

        Args:
            center: [d]: any vector near to them.
        """
        num_rows, dimension = rows.payload.shape
        squares, errors, scale = np.empty(num_rows, np.int32), np.empty(num_rows, np.float32), np.empty(3)
        arrays = (np.zeros(_panels(num_rows, dimension), np.uint8), squares, errors, scale, center.astype(np.float32))
        addresses = tuple(address_of(array) for array in arrays)
        copy_in_bytes(rows.address, num_rows, dimension, addresses[4], *addresses[:4])
        return cls(arrays, addresses)


def _panels(num_rows: int, dimension: int) -> tuple[int, ...]:
    """The shape of the codes of a copy."""
    return -(-num_rows // PANEL_ROWS), 4 * -(-dimension // 8), PANEL_ROWS, 2


@dataclass(eq=False)
class FlatPartition(Partition):
    """The vectors of a partition, and its copy, if it may have one.

    The second comparison makes the copy: for a single one it takes half as long again.

    Attributes:
        center: [d]: the centroid; None if there is no copy.
        num_comparisons: searches that could have used the copy.
        copy: the copy, once it is made.
    """

    center: Vectors | None = None
    num_comparisons: int = 0
    copy: ByteCopy | None = None

    def copy_to_compare(self) -> ByteCopy | None:
        """The copy, None for the first comparison."""
        self.num_comparisons += 1
        if self.num_comparisons > 1 and self.copy is None and self.center is not None:
            self.copy = ByteCopy.of(self, self.center)
        return self.copy

    @property
    def num_bytes(self) -> int:
        """Bytes in memory, the copy included before it is made."""
        copied = 0 if self.center is None else math.prod(_panels(*self.payload.shape)) + 8 * len(self.row_ids)
        return super().num_bytes + copied


@dataclass(frozen=True)
class FlatStorage(MappedStorage):
    """The vectors themselves, normalized for cosine."""

    def column_types(self) -> dict[str, pa.DataType]:
        centroids = self.model.centroids
        return {"flat": pa.list_(pa.from_numpy_dtype(centroids.dtype), centroids.shape[1])}

    def partition(self, number: int, row_ids: UInt64Array, columns: Sequence[npt.NDArray[Any]]) -> Partition:
        vectors = np.ascontiguousarray(columns[0], computed_type(columns[0].dtype))
        return FlatPartition(row_ids, vectors, center=self.model.centroids[number] if self.has_copies else None)

    @cached_property
    def has_copies(self) -> bool:
        """Whether partitions may have copies: if they are worthwhile, and all of them, with the vectors in memory, fit
        into the cache."""
        num_rows, dimension = int(self.partitions.lengths.sum()), self.model.centroids.shape[1]
        fits = num_rows * (dimension + self._stored_bytes) <= 3 * shared.max_bytes // 4
        is_float = computed_type(self.model.centroids.dtype) == np.float32
        is_worthwhile = num_rows * dimension >= _MIN_VALUES and not self.model.has_graph
        return fits and is_float and is_worthwhile and dimension <= _MAX_DIMENSION

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
            copies = [rows.copy_to_compare() for rows in cast("Sequence[FlatPartition]", parts.partitions)]
            if any(copies):
                return self._of_near(parts, copies, np.ascontiguousarray(query), count)
        return distances_of_parts(self.storage.metric, parts.addresses, parts.lengths, query)

    def _of_near(
        self, parts: Parts, copies: Sequence[ByteCopy | None], query: Float32Array, count: int
    ) -> Float32Array:
        """The distances of rows that can be among the `count` nearest, NaN for the others."""
        located = np.array([(0,) * 5 if copy is None else copy.addresses for copy in copies], np.int64)
        num_rows = parts.num_rows
        places, addresses = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64)
        out = np.empty(num_rows, np.float32)
        number = near_by_bytes(
            address_of(parts.addresses),
            address_of(located),
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
