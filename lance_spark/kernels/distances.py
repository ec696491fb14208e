"""Distances between one query vector and many vectors of float32 or float64 that lie one after the other.

`vectors` is the address of ``num_rows * dimension`` values, `query` of `dimension`, `out` of `num_rows`, all of one
type. Sums are added in any order. NaN and infinity go through as in IEEE 754. Kernels return 0; no value can fail.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_f32, pointer_f64


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def squared_l2_f32(vectors, num_rows, dimension, query, out):
    """out[i] = sum over j of (vectors[i, j] - query[j]) ** 2"""
    values = pointer_f32(vectors)
    wanted = pointer_f32(query)
    results = pointer_f32(out)
    for i in range(num_rows):
        start = i * dimension
        total = np.float32(0)
        for j in range(dimension):
            difference = values[start + j] - wanted[j]
            total += difference * difference
        results[i] = total
    return 0


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def squared_l2_f64(vectors, num_rows, dimension, query, out):
    """As `squared_l2_f32`."""
    values = pointer_f64(vectors)
    wanted = pointer_f64(query)
    results = pointer_f64(out)
    for i in range(num_rows):
        start = i * dimension
        total = np.float64(0)
        for j in range(dimension):
            difference = values[start + j] - wanted[j]
            total += difference * difference
        results[i] = total
    return 0


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def dot_f32(vectors, num_rows, dimension, query, out):
    """out[i] = sum over j of vectors[i, j] * query[j]"""
    values = pointer_f32(vectors)
    wanted = pointer_f32(query)
    results = pointer_f32(out)
    for i in range(num_rows):
        start = i * dimension
        total = np.float32(0)
        for j in range(dimension):
            total += values[start + j] * wanted[j]
        results[i] = total
    return 0


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def dot_f64(vectors, num_rows, dimension, query, out):
    """As `dot_f32`."""
    values = pointer_f64(vectors)
    wanted = pointer_f64(query)
    results = pointer_f64(out)
    for i in range(num_rows):
        start = i * dimension
        total = np.float64(0)
        for j in range(dimension):
            total += values[start + j] * wanted[j]
        results[i] = total
    return 0


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def cosine_f32(vectors, num_rows, dimension, query, out):
    """out[i] = the cosine of the angle between vectors[i] and query, NaN if one of them is zero."""
    values = pointer_f32(vectors)
    wanted = pointer_f32(query)
    results = pointer_f32(out)
    norm = np.float32(0)
    for j in range(dimension):
        norm += wanted[j] * wanted[j]
    for i in range(num_rows):
        start = i * dimension
        product = np.float32(0)
        square = np.float32(0)
        for j in range(dimension):
            value = values[start + j]
            product += value * wanted[j]
            square += value * value
        results[i] = product / (np.sqrt(square) * np.sqrt(norm))
    return 0


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def cosine_f64(vectors, num_rows, dimension, query, out):
    """As `cosine_f32`."""
    values = pointer_f64(vectors)
    wanted = pointer_f64(query)
    results = pointer_f64(out)
    norm = np.float64(0)
    for j in range(dimension):
        norm += wanted[j] * wanted[j]
    for i in range(num_rows):
        start = i * dimension
        product = np.float64(0)
        square = np.float64(0)
        for j in range(dimension):
            value = values[start + j]
            product += value * wanted[j]
            square += value * value
        results[i] = product / (np.sqrt(square) * np.sqrt(norm))
    return 0
