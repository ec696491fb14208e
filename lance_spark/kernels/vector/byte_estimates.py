"""Differences and products of rows of bytes and a query that is rounded to words of 16 bits.

Sums of products of both are exact.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    inlined,
    kernel,
    pointer_f32,
    pointer_f64,
    pointer_i64,
    pointer_u8,
    products_of_long_rows,
    products_of_short_rows,
)
from lance_spark.kernels.vector.byte_bounds import in_words

_BLOCK_ROWS = 256
_ROWS, _CHUNK = 8, 32
"""Rows, and bytes of each, that are multiplied at once."""
_SHORT_BYTES = 128
"""Two lines of the processor's caches, which are fetched together."""
_BLOCK_VALUES = 1 << 14
"""The sum of this many squared bytes is far below 32 bits."""


@kernel("int64(int64, int64, int64, int64)")
def squared_lengths(codes, num_rows, dimension, out):
    """out[i] = the sum over j of ``codes[i, j] ** 2``, float64[n], of uint8[n, d]."""
    total = pointer_f64(out)
    for i in range(num_rows):
        total[i] = 0.0
        for first in range(0, dimension, _BLOCK_VALUES):
            code, some = pointer_u8(codes + i * dimension + first), np.int32(0)
            for j in range(min(_BLOCK_VALUES, dimension - first)):
                # Without the casts numba computes in 64 bits.
                some = np.int32(some + np.int32(np.int32(code[j]) * np.int32(code[j])))
            total[i] += np.float64(some)
    return 0


@inlined
def _products(codes, num_rows, dimension, words, last_words, products):
    """Writes the products of rows with the words, int32."""
    if dimension >= _CHUNK and num_rows >= _ROWS:
        for first in range(0, num_rows, _ROWS):
            # The last rows overlap those before.
            row = min(first, num_rows - _ROWS)
            at, words_at, last_at = codes + row * dimension, words.ctypes.data, last_words.ctypes.data
            if dimension <= _SHORT_BYTES:
                products_of_short_rows(at, dimension, words_at, last_at, products.ctypes.data + 4 * row)
            else:
                products_of_long_rows(at, dimension, words_at, last_at, products.ctypes.data + 4 * row)
        return 0
    for i in range(num_rows):
        code, product = pointer_u8(codes + i * dimension), np.int64(0)
        for j in range(dimension):
            product += np.int64(code[j]) * words[j]
        products[i] = product
    return 0


@inlined
def _estimates(products, squares, num_rows, length, share, is_dot, out):
    if is_dot:
        for i in range(num_rows):
            out[i] = np.float32(share * np.float64(products[i]))
    else:
        for i in range(num_rows):
            out[i] = np.float32(max(length + squares[i] - 2 * share * np.float64(products[i]), 0.0))
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def byte_estimates(parts, squares, lengths, num_parts, dimension, query, is_dot, out):
    """out[i] = the sum over j of ``(codes[i, j] - query[j]) ** 2``, or for `is_dot` of ``codes[i, j] * query[j]``.

    Where the query is not finite, the results are not either.

    Args:
        parts: int64[num_parts]: the address of the codes of each part, uint8[n, d].
        squares: int64[num_parts]: the address of its `squared_lengths`, float64[n]; nothing for `is_dot`.
        lengths: int64[num_parts]: its rows.
        query: float32[d].
        out: float32[n], for all rows.
    """
    block, square, rows_of, wanted = pointer_i64(parts), pointer_i64(squares), pointer_i64(lengths), pointer_f32(query)
    results, far, length = pointer_f32(out), 0.0, 0.0
    values, words, last_words = np.empty(dimension), np.empty(dimension, np.int16), np.zeros(_CHUNK, np.int16)
    products = np.empty(_BLOCK_ROWS, np.int32)
    for j in range(dimension):
        values[j] = wanted[j]
        far += abs(values[j])
    share, _ = in_words(values, dimension, words)
    for j in range(dimension):
        length += (share * np.float64(words[j])) ** 2
    for j in range((dimension - 1) // _CHUNK * _CHUNK if dimension >= _CHUNK else dimension, dimension):
        last_words[_CHUNK - dimension + j] = words[j]
    done = 0
    for part in range(num_parts):
        for first in range(0, rows_of[part], _BLOCK_ROWS):
            num_rows = min(_BLOCK_ROWS, rows_of[part] - first)
            _products(block[part] + first * dimension, num_rows, dimension, words, last_words, products)
            target = pointer_f32(out + (done + first) * 4)
            mine = pointer_f64(0 if is_dot else square[part] + first * 8)
            _estimates(products, mine, num_rows, length, share, is_dot, target)
        done += rows_of[part]
    if not far < np.inf:
        for i in range(done):
            results[i] = np.float32(far)
    return 0
