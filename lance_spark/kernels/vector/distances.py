"""Distances between one query vector and many vectors of float32 or float64 that lie one after the other.

`vectors` is the address of ``num_rows * dimension`` values, `query` of `dimension`, `out` of `num_rows`, all of one
type. Sums are added in any order. NaN and infinity go through as in IEEE 754. Kernels return 0; no value can fail.

Each distance is written once, over pointers; `zero` has the type in which it is computed.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined_sum, kernel, pointer_f32, pointer_f64


@inlined_sum
def _squared_l2(values, num_rows, dimension, wanted, results, zero):
    for i in range(num_rows):
        start = i * dimension
        total = zero
        for j in range(dimension):
            difference = values[start + j] - wanted[j]
            total += difference * difference
        results[i] = total
    return 0


@inlined_sum
def _dot(values, num_rows, dimension, wanted, results, zero):
    for i in range(num_rows):
        start = i * dimension
        total = zero
        for j in range(dimension):
            total += values[start + j] * wanted[j]
        results[i] = total
    return 0


@inlined_sum
def _cosine(values, num_rows, dimension, wanted, results, zero):
    norm = zero
    for j in range(dimension):
        norm += wanted[j] * wanted[j]
    for i in range(num_rows):
        start = i * dimension
        product = zero
        square = zero
        for j in range(dimension):
            value = values[start + j]
            product += value * wanted[j]
            square += value * value
        results[i] = product / (np.sqrt(square) * np.sqrt(norm))
    return 0


@kernel("int64(int64, int64, int64, int64, int64)")
def squared_l2_f32(vectors, num_rows, dimension, query, out):
    """out[i] = sum over j of (vectors[i, j] - query[j]) ** 2"""
    return _squared_l2(pointer_f32(vectors), num_rows, dimension, pointer_f32(query), pointer_f32(out), np.float32(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def squared_l2_f64(vectors, num_rows, dimension, query, out):
    """As `squared_l2_f32`."""
    return _squared_l2(pointer_f64(vectors), num_rows, dimension, pointer_f64(query), pointer_f64(out), np.float64(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def dot_f32(vectors, num_rows, dimension, query, out):
    """out[i] = sum over j of vectors[i, j] * query[j]"""
    return _dot(pointer_f32(vectors), num_rows, dimension, pointer_f32(query), pointer_f32(out), np.float32(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def dot_f64(vectors, num_rows, dimension, query, out):
    """As `dot_f32`."""
    return _dot(pointer_f64(vectors), num_rows, dimension, pointer_f64(query), pointer_f64(out), np.float64(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def cosine_f32(vectors, num_rows, dimension, query, out):
    """out[i] = the cosine of the angle between vectors[i] and query, NaN if one of them is zero."""
    return _cosine(pointer_f32(vectors), num_rows, dimension, pointer_f32(query), pointer_f32(out), np.float32(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def cosine_f64(vectors, num_rows, dimension, query, out):
    """As `cosine_f32`."""
    return _cosine(pointer_f64(vectors), num_rows, dimension, pointer_f64(query), pointer_f64(out), np.float64(0))
