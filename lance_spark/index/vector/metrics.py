"""Distances between vectors, as the reference library computes them.

| metric | distance |
|---|---|
| l2 | the sum of squared differences, not its root |
| cosine | 1 - a·b / (|a| |b|); NaN if one of them is zero |
| dot | 1 - a·b |
| hamming | the number of bits that differ, of uint8 vectors |
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.errors import InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.distances import (
    cosine_f32,
    cosine_f64,
    dot_f32,
    dot_f64,
    squared_l2_f32,
    squared_l2_f64,
)

Vectors = npt.NDArray[Any]
Float32Array = npt.NDArray[np.float32]


class Metric(str, Enum):
    """How far two vectors are from each other."""

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
        """As `named`; None if there is no such metric."""
        folded = name.lower() if isinstance(name, str) else name
        return cls.L2 if folded == "euclidean" else next((metric for metric in cls if metric.value == folded), None)


_KERNELS = {
    (Metric.L2, 4): squared_l2_f32,
    (Metric.L2, 8): squared_l2_f64,
    (Metric.DOT, 4): dot_f32,
    (Metric.DOT, 8): dot_f64,
    (Metric.COSINE, 4): cosine_f32,
    (Metric.COSINE, 8): cosine_f64,
}
_BITS_SET = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


def distances(metric: Metric, vectors: Vectors, query: Vectors) -> Float32Array:
    """float32[n]: the distance of each of `vectors` to `query`; NaN where there is none.

    Args:
        vectors: [n, d] of float16, float32 or float64; of uint8 for hamming.
        query: [d] of the same type.
    """
    if metric is Metric.HAMMING:
        bits: Float32Array = _BITS_SET[vectors ^ query].sum(axis=1, dtype=np.uint32).astype(np.float32)
        return bits
    dtype = np.float64 if vectors.dtype == np.float64 else np.float32
    rows = np.ascontiguousarray(vectors, dtype)
    wanted = np.ascontiguousarray(query, dtype)
    out = np.empty(len(rows), dtype)
    arguments = (address_of(rows), len(rows), rows.shape[1], address_of(wanted), address_of(out))
    _KERNELS[metric, dtype().itemsize](*arguments)
    if metric is not Metric.L2:
        np.subtract(1, out, out=out)
    with np.errstate(over="ignore"):
        found: Float32Array = out.astype(np.float32, copy=False)
    return found
