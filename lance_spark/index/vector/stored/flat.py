"""FLAT: the vectors themselves, and in memory a copy of them with a byte a value, which is compared first.

Copies of partitions with graphs have their codes row by row, as a walk compares them; those of others have the error of
each vector too, by which rows can be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.index.vector.aligned import line_aligned
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors, computed_type, distances_of_parts
from lance_spark.index.vector.storage import GraphNodes, Partition, Parts, Scorer
from lance_spark.index.vector.stored.copies import CopiedStorage, Copies, Copy
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.byte_bounds import PANEL_ROWS, copy_in_bytes, near_by_bytes
from lance_spark.kernels.vector.scalar_codes import scalar_codes_f32
from lance_spark.kernels.vector.vector_graph import CODES_DOT, CODES_SQUARED_L2, DOT, SQUARED_L2

_MIN_VALUES = 1 << 19
"""Fewer values are compared in less time than it takes to find out which of them have to be."""

_NEAR_SHARE = 0.1
"""If more of the rows are asked for, all are compared."""

LARGEST_CODE = 255
"""Of the greatest value."""

_ARRAYS_OF_COPY = 5


class ByteCopy(Copy):
    """A copy of a partition with a byte a value: the arrays of `copy_in_bytes` and their addresses."""

    @classmethod
    def of(cls, rows: Partition, center: Float32Array) -> ByteCopy:
        """The copy of some vectors, float32[n, d], which are near to `center`, float32[d]."""
        num_rows, dimension = rows.payload.shape
        panels = np.zeros((-(-num_rows // PANEL_ROWS), 4 * -(-dimension // 8), PANEL_ROWS, 2), np.uint8)
        squares, errors, scale = np.empty(num_rows, np.int32), np.empty(num_rows, np.float32), np.empty(3)
        arrays = (panels, squares, errors, scale, center.copy())
        addresses = tuple(address_of(array) for array in arrays)
        copy_in_bytes(rows.address, num_rows, dimension, addresses[4], *addresses[:4])
        return cls(arrays, addresses)


@dataclass(frozen=True)
class FlatStorage(CopiedStorage):
    """The vectors themselves, normalized for cosine."""

    def column_types(self) -> dict[str, pa.DataType]:
        centroids = self.model.centroids
        return {"flat": pa.list_(pa.from_numpy_dtype(centroids.dtype), centroids.shape[1])}

    def partition(self, row_ids: npt.NDArray[np.uint64], columns: Sequence[npt.NDArray[Any]]) -> Partition:
        return Partition(row_ids, np.ascontiguousarray(columns[0], computed_type(columns[0].dtype)))

    @property
    def has_bytes(self) -> bool:
        return computed_type(self.model.centroids.dtype) == np.float32

    def copied(self, number: int, rows: Partition) -> Copy:
        if self.model.has_graph:
            return row_codes(rows.payload)
        return ByteCopy.of(rows, self.model.centroids[number].astype(np.float32))

    def scorer(self, query: Vectors) -> Scorer:
        return _FlatScorer(self, query)


@dataclass(frozen=True)
class _FlatScorer(Scorer):
    storage: FlatStorage
    query: Vectors

    def distances(self, parts: Parts, count: int | None = None) -> Float32Array:
        wanted = self.query.astype(computed_type(self.storage.model.centroids.dtype), copy=False)
        num_rows = parts.num_rows
        if self.storage.model.has_graph:
            count = None
        if count is not None and count <= _NEAR_SHARE * num_rows and num_rows * len(wanted) >= _MIN_VALUES:
            copies = self.storage.located_copies(parts, _ARRAYS_OF_COPY)
            if any(copies.kept):
                return self._of_near(parts, copies, np.ascontiguousarray(wanted), count)
        return distances_of_parts(self.storage.metric, parts.addresses, parts.lengths, wanted)

    def _of_near(self, parts: Parts, copies: Copies, wanted: Float32Array, count: int) -> Float32Array:
        """The distances of rows that can be among the `count` nearest, NaN for the others."""
        num_rows = parts.num_rows
        places, addresses = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64)
        out = np.empty(num_rows, np.float32)
        number = near_by_bytes(
            address_of(parts.addresses),
            address_of(copies.addresses),
            address_of(parts.lengths),
            len(parts.lengths),
            len(wanted),
            address_of(wanted),
            self.storage.metric is Metric.DOT,
            count,
            address_of(out),
            address_of(places),
            address_of(addresses),
        )
        found = distances_of_parts(self.storage.metric, addresses[:number], np.ones(number, np.int64), wanted)
        out.fill(np.nan)
        out[places[:number]] = found
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

    def rounded_nodes(self, number: int, rows: Partition) -> GraphNodes | None:
        (copy,) = self.storage.copies(Parts.of([number], [rows]))
        if copy is None or not copy.arrays:
            return None
        codes, (low, high) = copy.arrays
        # Codes are rounded down: a value lies half a step above its code in the mean.
        step, width = (high - low) / LARGEST_CODE, codes.shape[1]
        middle = low + step / 2
        if self.storage.metric is Metric.DOT:
            offset = 1 - middle * float(self.query.sum())
            return GraphNodes(CODES_DOT, codes, width, self.query, step, offset)
        wanted = ((self.query - middle) / step).astype(np.float32)
        return GraphNodes(CODES_SQUARED_L2, codes, width, wanted, step * step)


def row_codes(vectors: Float32Array) -> Copy:
    """Vectors as a byte a value, uint8[n, d], and the bounds of all values; no arrays if there are no bounds."""
    low, high = float(vectors.min()), float(vectors.max())
    if not low < high or not np.isfinite(high - low):
        return Copy((), ())
    codes = line_aligned(vectors.shape, np.uint8)
    scalar_codes_f32(address_of(vectors), vectors.size, low, high, address_of(codes))
    return Copy((codes, np.array([low, high])), ())
