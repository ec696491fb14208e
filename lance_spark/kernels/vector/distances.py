"""Distances between one query vector and many vectors, which are in some blocks.

`parts` (int64) has the address of each of `num_parts` blocks, `lengths` (int64) its number of vectors; `query` is the
address of `dimension` values, `out` of a value for each vector, block by block, all of one type. Sums are added in any
order, which does not depend on the blocks. NaN and infinity go through as in IEEE 754. Kernels return 0; no value can
fail.

Each distance is written once, over pointers; `zero` has the type in which it is computed.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    inlined,
    inlined_sum,
    kernel,
    pointer_f32,
    pointer_f64,
    pointer_i64,
    pointer_u8,
    prefetch,
)

SQUARED_L2, DOT, COSINE = range(3)
"""What is computed."""

_AHEAD_BYTES = 2048
"""Distance in memory between the row that is compared and the one that is requested: rows that are in no near cache
arrive in time. The machine's own prefetching keeps up less well."""

_PARTS_AHEAD = 4
"""How many parts before it is compared the first row of a part is requested."""


@inlined
def _ask_ahead(address, num_bytes, end):
    """Requests the cache lines of `num_bytes` some rows behind `address` that are before `end`."""
    for place in range(_AHEAD_BYTES, min(_AHEAD_BYTES + num_bytes, end - address), 64):
        prefetch(address + place)
    return 0


@inlined
def _ask_for_part(block, part, num_parts, num_bytes):
    """Requests the first row of a part, if there is one: parts can be single rows."""
    if part < num_parts:
        for place in range(0, min(num_bytes, _AHEAD_BYTES), 64):
            prefetch(block[part] + place)
    return 0


@inlined_sum
def _squared_l2(values, address, size, num_rows, dimension, wanted, results, zero):
    end = address + num_rows * dimension * size
    for i in range(num_rows):
        start = i * dimension
        _ask_ahead(address + start * size, dimension * size, end)
        total = zero
        for j in range(dimension):
            difference = values[start + j] - wanted[j]
            total += difference * difference
        results[i] = total
    return 0


@inlined_sum
def _dot(values, address, size, num_rows, dimension, wanted, results, zero):
    end = address + num_rows * dimension * size
    for i in range(num_rows):
        start = i * dimension
        _ask_ahead(address + start * size, dimension * size, end)
        total = zero
        for j in range(dimension):
            total += values[start + j] * wanted[j]
        results[i] = total
    return 0


@inlined_sum
def _cosine(values, address, size, num_rows, dimension, wanted, results, zero):
    norm = zero
    for j in range(dimension):
        norm += wanted[j] * wanted[j]
    end = address + num_rows * dimension * size
    for i in range(num_rows):
        start = i * dimension
        _ask_ahead(address + start * size, dimension * size, end)
        product = zero
        square = zero
        for j in range(dimension):
            value = values[start + j]
            product += value * wanted[j]
            square += value * value
        results[i] = product / (np.sqrt(square) * np.sqrt(norm))
    return 0


@inlined
def _of_rows(kind, values, address, size, num_rows, dimension, wanted, results, zero):
    if kind == SQUARED_L2:
        _squared_l2(values, address, size, num_rows, dimension, wanted, results, zero)
    elif kind == DOT:
        _dot(values, address, size, num_rows, dimension, wanted, results, zero)
    else:
        _cosine(values, address, size, num_rows, dimension, wanted, results, zero)
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def distances_f32(kind, parts, lengths, num_parts, dimension, query, out):
    """out[i] = by `kind`: the sum over j of ``(vectors[i, j] - query[j]) ** 2``, the sum of
    ``vectors[i, j] * query[j]``, or the cosine of the angle between both, NaN if one of them is zero."""
    block, length = pointer_i64(parts), pointer_i64(lengths)
    wanted, zero, done = pointer_f32(query), np.float32(0), 0
    for part in range(num_parts):
        _ask_for_part(block, part + _PARTS_AHEAD, num_parts, dimension * 4)
        address, results = block[part], pointer_f32(out + done * 4)
        _of_rows(kind, pointer_f32(address), address, 4, length[part], dimension, wanted, results, zero)
        done += length[part]
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def distances_f64(kind, parts, lengths, num_parts, dimension, query, out):
    """Same as `distances_f32`, of float64."""
    block, length = pointer_i64(parts), pointer_i64(lengths)
    wanted, zero, done = pointer_f64(query), np.float64(0), 0
    for part in range(num_parts):
        _ask_for_part(block, part + _PARTS_AHEAD, num_parts, dimension * 8)
        address, results = block[part], pointer_f64(out + done * 8)
        _of_rows(kind, pointer_f64(address), address, 8, length[part], dimension, wanted, results, zero)
        done += length[part]
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def hamming_u8(parts, lengths, num_parts, dimension, query, out):
    """out[i] (float32) = the number of bits in which vectors[i] and query, both of uint8, differ."""
    block, length = pointer_i64(parts), pointer_i64(lengths)
    wanted, results, done = pointer_u8(query), pointer_f32(out), 0
    for part in range(num_parts):
        values = pointer_u8(block[part])
        for i in range(length[part]):
            start = i * dimension
            total = 0
            for j in range(dimension):
                bits = values[start + j] ^ wanted[j]
                bits = (bits & 0x55) + (bits >> 1 & 0x55)
                bits = (bits & 0x33) + (bits >> 2 & 0x33)
                total += (bits & 0x0F) + (bits >> 4)
            results[done + i] = np.float32(total)
        done += length[part]
    return 0
