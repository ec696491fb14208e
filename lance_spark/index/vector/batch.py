"""Many queries at once: products of integers choose the rows whose distances are then computed one by one.

They decide nothing but which rows cannot be among the nearest, with room for all errors, so distances do not depend on
the number of queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.query_products import (
    GROUP_QUERIES,
    HIGHEST_SQUARE,
    LOWEST_VALUE,
    MAX_MULTIPLE,
    PANEL_ROWS,
    ROUNDING,
    near_rows,
)

_BLOCK_QUERIES = 1024
"""Queries that are compared together."""

LEAST_QUERIES = 8
"""From this number of queries products are faster than one pass per query."""

_BLOCK_BYTES = 256 << 10
"""Of rows that all queries are compared with before the next ones: they stay in the cache of a core."""

_MAX_FOUND_BYTES = 64 << 20

_MULTIPLES_LENGTH = 46340
"""The root of 2 ** 31, rounded down."""

Places = npt.NDArray[np.int32]


def is_worthwhile(metric: Metric, num_queries: int, k: int) -> bool:
    """Whether the queries are searched by products."""
    return num_queries >= LEAST_QUERIES and _queries_at_once(k) >= LEAST_QUERIES and metric is not Metric.HAMMING


def _capacity(k: int) -> int:
    return max(256, 4 * k)


def _queries_at_once(k: int) -> int:
    """The number of queries whose results fit into `_MAX_FOUND_BYTES`."""
    return min(_BLOCK_QUERIES, _MAX_FOUND_BYTES // (12 * _capacity(k)))


class QueryProducts:
    """The products of some queries with many rows.

    Args:
        metric: not hamming.
        queries: [m, d] of float32 or float64.
        k: how many rows are wanted for each.
    """

    def __init__(self, metric: Metric, queries: Vectors, k: int) -> None:
        self._metric = metric
        self._k = k
        at_once = _queries_at_once(k)
        self._groups = [
            _Group(metric, queries[first : first + at_once], k) for first in range(0, len(queries), at_once)
        ]

    def near_places(self, vectors: Vectors, bounds: Sequence[float]) -> Iterator[tuple[int, Places | None]]:
        """(number of a query, int32[n]: rows among which its `k` nearest are; None if it can be any row).

        Rows farther than `bounds`, a distance for each query, can be left out.

        Args:
            vectors: [n, d] of the type of the queries.
        """
        # A row of other zeros in float64 may have a cosine, so it has to be compared.
        zeros_count = vectors.dtype == np.float64
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(vectors, np.float32)
        done = 0
        for group in self._groups:
            for number, places in group.near_places(rows, bounds[done : done + group.size], zeros_count=zeros_count):
                yield done + number, places
            done += group.size


class _Group:
    """Some of the queries, as multiples of scales.

    Attributes:
        size: how many.
    """

    def __init__(self, metric: Metric, queries: Vectors, k: int) -> None:
        self._metric = metric
        self._k = k
        self.size, self._dimension = queries.shape
        # Products of multiples then have less than 32 bits, whatever the signs of the values are.
        self._half = ROUNDING * self._dimension**0.5
        self._length = _MULTIPLES_LENGTH - self._half - 1
        width = self._dimension + self._dimension % 2
        num_queries = -(-self.size // GROUP_QUERIES) * GROUP_QUERIES
        self._packed = np.zeros((num_queries, width), np.int16)
        self._terms = np.zeros((4, num_queries), np.float32)
        unit = float(np.finfo(np.float32).eps)
        # Twice the errors of distances by the kernels for single queries, and of the estimates.
        self._slack = (self._dimension + 16) * unit
        values = queries.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            self._squares = np.einsum("ij,ij->i", values, values)
        largest = np.abs(values).max(axis=1, initial=0)
        known = (self._squares < HIGHEST_SQUARE) & ((largest == 0) | (largest >= LOWEST_VALUE))
        if metric is Metric.COSINE:
            known &= self._squares >= LOWEST_VALUE
        self._is_known = known
        self._pack(np.where(known[:, None], values, 0), np.where(known, largest, 0))

    def _pack(self, values: Vectors, largest: Vectors) -> None:
        lengths = np.sqrt(np.where(self._is_known, self._squares, 0))
        scales = np.maximum(lengths / self._length, largest / MAX_MULTIPLE)
        with np.errstate(divide="ignore", invalid="ignore"):
            multiples = np.where(scales[:, None] > 0, np.rint(values / scales[:, None]), 0)
        self._packed[: self.size, : self._dimension] = multiples
        if self._metric is Metric.COSINE:
            scales /= np.where(lengths > 0, lengths, 1)
            lengths = np.ones(self.size)
        errors = self._half * lengths + _MULTIPLES_LENGTH * (self._half * scales + self._slack * lengths)
        constant = self._slack * (2 + (lengths**2 if self._metric is Metric.L2 else 0))
        self._terms[0, : self.size], self._terms[1, : self.size] = scales, 1.01 * errors
        self._terms[3, : self.size] = 2.02 * (constant + 1e-37 * self._dimension * (1 + lengths))

    def near_places(
        self, rows: Float32Array, bounds: Sequence[float], *, zeros_count: bool
    ) -> Iterator[tuple[int, Places | None]]:
        """Same as `QueryProducts.near_places`."""
        capacity, num_queries = _capacity(self._k), len(self._packed)
        self._terms[2] = self._limits(bounds)
        counts = np.zeros(num_queries, np.int32)
        found = np.empty((num_queries, 3, capacity), np.int32)
        block_rows = max(_BLOCK_BYTES // (2 * self._packed.shape[1]) // PANEL_ROWS, 1) * PANEL_ROWS
        packed = np.zeros((block_rows, self._packed.shape[1]), np.int16)
        row_terms = np.empty((3, block_rows), np.float32)
        work = np.empty(128 + self._k, np.int32)
        is_cosine = self._metric is Metric.COSINE
        zero_low = 0.0 if not is_cosine else -np.inf if zeros_count else np.inf
        near_rows(
            address_of(rows),
            len(rows),
            self._dimension,
            self._length,
            self._metric is Metric.L2,
            is_cosine,
            self._slack,
            zero_low,
            address_of(self._packed),
            num_queries,
            address_of(self._terms),
            self._k,
            address_of(counts),
            address_of(found),
            capacity,
            address_of(packed),
            address_of(row_terms),
            block_rows,
            address_of(work),
        )
        for number in range(self.size):
            if not self._is_known[number] or counts[number] < 0:
                yield number, None
            elif counts[number]:
                yield number, found[number, 2, : counts[number]]

    def _limits(self, bounds: Sequence[float]) -> Float32Array:
        """float32[m]: `bounds` without what is the same for all rows, with room; NaN for what needs no products."""
        limits = np.full(len(self._packed), np.nan, np.float32)
        given = np.array(bounds, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            least = (given - self._squares) / 2 if self._metric is Metric.L2 else given - 1
            wide = np.nextafter((least + self._terms[3, : self.size]).astype(np.float32), np.float32(np.inf))
        limits[: self.size] = np.where(self._is_known, wide, np.nan)
        return limits
