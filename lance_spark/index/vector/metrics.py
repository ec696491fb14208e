"""Distances between vectors, as the reference library computes them.

| metric | distance |
|---|---|
| l2 | the sum of squared differences, not its root |
| cosine | 1 - a·b / (|a| |b|); NaN if one of them is zero |
| dot | 1 - a·b |
| hamming | the number of bits that differ, of uint8 vectors |
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.errors import InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.distances import COSINE, DOT, SQUARED_L2, distances_f32, distances_f64, hamming_u8

Vectors = npt.NDArray[Any]
Float32Array = npt.NDArray[np.float32]
Int64Array = npt.NDArray[np.int64]


class Metric(str, Enum):
    """Distance metric of vectors."""

    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"
    HAMMING = "hamming"

    @classmethod
    def named(cls, name: str) -> Metric:
        """The metric of a name, in any case; ``euclidean`` is l2.

        Raises:
            InvalidInputError: there is no such metric.
        """
        found = cls.of_name(name)
        if found is None:
            known = ", ".join(metric.value for metric in cls)
            raise InvalidInputError(f"there is no metric {name!r}; use one of {known}")
        return found

    @classmethod
    def of_name(cls, name: str) -> Metric | None:
        """The metric of a name, see `named`; None if there is no such metric."""
        folded = name.lower() if isinstance(name, str) else name
        return cls.L2 if folded == "euclidean" else next((metric for metric in cls if metric.value == folded), None)


_KINDS = {Metric.L2: SQUARED_L2, Metric.DOT: DOT, Metric.COSINE: COSINE}


def distances(metric: Metric, vectors: Vectors, query: Vectors) -> Float32Array:
    """float32[n]: the distance of each of `vectors` to `query`; NaN where there is none.

    Args:
        vectors: [n, d] of float16, float32 or float64; of uint8 for hamming.
        query: [d] of the same type.
    """
    return distances_of_block(metric, block_of(vectors), query)


Block = tuple[Vectors, Int64Array, Int64Array]
"""Vectors as kernels compare them; the arrays of their address and number."""


def block_of(vectors: Vectors) -> Block:
    """[n, d] of vectors, prepared for `distances_of_block`."""
    rows = np.ascontiguousarray(vectors, computed_type(vectors.dtype))
    return rows, np.array([address_of(rows)]), np.array([len(rows)])


def distances_of_block(metric: Metric, block: Block, query: Vectors) -> Float32Array:
    """Distances of the vectors of a block to `query`; see `distances`."""
    rows, address, number = block
    return distances_of_parts(metric, address, number, query.astype(rows.dtype, copy=False))


def computed_type(dtype: npt.DTypeLike) -> npt.DTypeLike:
    """The type in which vectors of a type are compared."""
    given = np.dtype(dtype)
    return given if given in (np.float64, np.uint8) else np.dtype(np.float32)


def distances_of_parts(metric: Metric, parts: Int64Array, lengths: Int64Array, query: Vectors) -> Float32Array:
    """Distances of the vectors of several blocks, one after the other, to `query`; see `distances`.

    Args:
        parts: int64[p]: the address of each block, of vectors of the type of `query`.
        lengths: int64[p]: vectors of each block.
        query: [d] of a type that `computed_type` returns.
    """
    wanted = np.ascontiguousarray(query)
    out = _empty(metric, int(np.add.reduce(lengths)), wanted.dtype)
    run = _kernel(metric, wanted.dtype)
    run(address_of(parts), address_of(lengths), len(parts), len(wanted), address_of(wanted), address_of(out))
    return _distances(metric, out)


def distances_to_each(metric: Metric, vectors: Vectors, counts: Int64Array, queries: Vectors) -> Float32Array:
    """Distances of the first vectors to the first query, the following ones to the second, and so on; see `distances`.

    Args:
        counts: int64[m]: how many of the vectors belong to each query.
        queries: [m, d].
    """
    rows = np.ascontiguousarray(vectors, computed_type(vectors.dtype))
    wanted = np.ascontiguousarray(queries, rows.dtype)
    out = _empty(metric, len(rows), rows.dtype)
    run = _kernel(metric, rows.dtype)
    starts = np.cumsum(counts) - counts
    parts, lengths = address_of(rows) + starts * rows.strides[0], np.ascontiguousarray(counts)
    places = zip(
        (address_of(parts) + 8 * np.arange(len(counts))).tolist(),
        (address_of(lengths) + 8 * np.arange(len(counts))).tolist(),
        (address_of(wanted) + wanted.strides[0] * np.arange(len(counts))).tolist(),
        (address_of(out) + out.itemsize * starts).tolist(),
        strict=True,
    )
    for part, length, query, target in places:
        run(part, length, 1, rows.shape[1], query, target)
    return _distances(metric, out)


def _kernel(metric: Metric, dtype: np.dtype[Any]) -> Callable[..., object]:
    """The kernel for vectors of a type that `computed_type` returns."""
    if metric is Metric.HAMMING:
        return hamming_u8
    return partial(distances_f64 if dtype.itemsize == 8 else distances_f32, _KINDS[metric])


def _empty(metric: Metric, num_rows: int, dtype: npt.DTypeLike) -> Vectors:
    return np.empty(num_rows, np.float32 if metric is Metric.HAMMING else dtype)


def _distances(metric: Metric, out: Vectors) -> Float32Array:
    """The distances of what a kernel computes."""
    if metric in (Metric.DOT, Metric.COSINE):
        np.subtract(1, out, out=out)
    if out.dtype == np.float32:
        return out
    with np.errstate(over="ignore"):
        found: Float32Array = out.astype(np.float32)
    return found
