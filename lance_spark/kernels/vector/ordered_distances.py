"""Distances between one query vector and many, with sums in a fixed order, so that they are equal bit by bit to those
of `lance_distance` in the JVM.

Item `j` of a vector is added to part ``j % 8`` of the sum. The parts are then added in pairs. `vectors` is the address
of ``num_rows * dimension`` values, `query` of `dimension`, `out` of `num_rows`, all of one type. NaN and infinity go
through as in IEEE 754. Kernels return 0; no value can fail.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_f32, pointer_f64


@inlined
def _square_of_difference(a, b):
    difference = a - b
    return difference * difference


@inlined
def _squared_l2(left, at, right, dimension, zero):
    t0 = t1 = t2 = t3 = t4 = t5 = t6 = t7 = zero
    whole = dimension - dimension % 8
    for j in range(0, whole, 8):
        t0 += _square_of_difference(left[at + j], right[j])
        t1 += _square_of_difference(left[at + j + 1], right[j + 1])
        t2 += _square_of_difference(left[at + j + 2], right[j + 2])
        t3 += _square_of_difference(left[at + j + 3], right[j + 3])
        t4 += _square_of_difference(left[at + j + 4], right[j + 4])
        t5 += _square_of_difference(left[at + j + 5], right[j + 5])
        t6 += _square_of_difference(left[at + j + 6], right[j + 6])
        t7 += _square_of_difference(left[at + j + 7], right[j + 7])
    rest = dimension - whole
    if rest > 0:
        t0 += _square_of_difference(left[at + whole], right[whole])
    if rest > 1:
        t1 += _square_of_difference(left[at + whole + 1], right[whole + 1])
    if rest > 2:
        t2 += _square_of_difference(left[at + whole + 2], right[whole + 2])
    if rest > 3:
        t3 += _square_of_difference(left[at + whole + 3], right[whole + 3])
    if rest > 4:
        t4 += _square_of_difference(left[at + whole + 4], right[whole + 4])
    if rest > 5:
        t5 += _square_of_difference(left[at + whole + 5], right[whole + 5])
    if rest > 6:
        t6 += _square_of_difference(left[at + whole + 6], right[whole + 6])
    return ((t0 + t1) + (t2 + t3)) + ((t4 + t5) + (t6 + t7))


@inlined
def _dot(left, at, right, start, dimension, zero):
    t0 = t1 = t2 = t3 = t4 = t5 = t6 = t7 = zero
    whole = dimension - dimension % 8
    for j in range(0, whole, 8):
        t0 += left[at + j] * right[start + j]
        t1 += left[at + j + 1] * right[start + j + 1]
        t2 += left[at + j + 2] * right[start + j + 2]
        t3 += left[at + j + 3] * right[start + j + 3]
        t4 += left[at + j + 4] * right[start + j + 4]
        t5 += left[at + j + 5] * right[start + j + 5]
        t6 += left[at + j + 6] * right[start + j + 6]
        t7 += left[at + j + 7] * right[start + j + 7]
    rest = dimension - whole
    if rest > 0:
        t0 += left[at + whole] * right[start + whole]
    if rest > 1:
        t1 += left[at + whole + 1] * right[start + whole + 1]
    if rest > 2:
        t2 += left[at + whole + 2] * right[start + whole + 2]
    if rest > 3:
        t3 += left[at + whole + 3] * right[start + whole + 3]
    if rest > 4:
        t4 += left[at + whole + 4] * right[start + whole + 4]
    if rest > 5:
        t5 += left[at + whole + 5] * right[start + whole + 5]
    if rest > 6:
        t6 += left[at + whole + 6] * right[start + whole + 6]
    return ((t0 + t1) + (t2 + t3)) + ((t4 + t5) + (t6 + t7))


@inlined
def _all_squared_l2(vectors, num_rows, dimension, query, out, zero):
    for i in range(num_rows):
        out[i] = _squared_l2(vectors, i * dimension, query, dimension, zero)
    return 0


@inlined
def _all_dot(vectors, num_rows, dimension, query, out, zero):
    for i in range(num_rows):
        out[i] = _dot(vectors, i * dimension, query, 0, dimension, zero)
    return 0


@inlined
def _all_cosine(vectors, num_rows, dimension, query, out, zero):
    length = np.sqrt(_dot(query, 0, query, 0, dimension, zero))
    for i in range(num_rows):
        at = i * dimension
        own = np.sqrt(_dot(vectors, at, vectors, at, dimension, zero))
        out[i] = _dot(vectors, at, query, 0, dimension, zero) / (own * length)
    return 0


@kernel("int64(int64, int64, int64, int64, int64)")
def ordered_l2_f32(vectors, num_rows, dimension, query, out):
    """out[i] = sum over j of (vectors[i, j] - query[j]) ** 2"""
    values, wanted, results = pointer_f32(vectors), pointer_f32(query), pointer_f32(out)
    return _all_squared_l2(values, num_rows, dimension, wanted, results, np.float32(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def ordered_l2_f64(vectors, num_rows, dimension, query, out):
    """Same as `ordered_l2_f32`, of float64."""
    values, wanted, results = pointer_f64(vectors), pointer_f64(query), pointer_f64(out)
    return _all_squared_l2(values, num_rows, dimension, wanted, results, np.float64(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def ordered_dot_f32(vectors, num_rows, dimension, query, out):
    """out[i] = sum over j of vectors[i, j] * query[j]"""
    values, wanted, results = pointer_f32(vectors), pointer_f32(query), pointer_f32(out)
    return _all_dot(values, num_rows, dimension, wanted, results, np.float32(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def ordered_dot_f64(vectors, num_rows, dimension, query, out):
    """Same as `ordered_dot_f32`, of float64."""
    values, wanted, results = pointer_f64(vectors), pointer_f64(query), pointer_f64(out)
    return _all_dot(values, num_rows, dimension, wanted, results, np.float64(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def ordered_cosine_f32(vectors, num_rows, dimension, query, out):
    """out[i] = the cosine of the angle between vectors[i] and query, NaN if one of them is zero."""
    values, wanted, results = pointer_f32(vectors), pointer_f32(query), pointer_f32(out)
    return _all_cosine(values, num_rows, dimension, wanted, results, np.float32(0))


@kernel("int64(int64, int64, int64, int64, int64)")
def ordered_cosine_f64(vectors, num_rows, dimension, query, out):
    """Same as `ordered_cosine_f32`, of float64."""
    values, wanted, results = pointer_f64(vectors), pointer_f64(query), pointer_f64(out)
    return _all_cosine(values, num_rows, dimension, wanted, results, np.float64(0))
