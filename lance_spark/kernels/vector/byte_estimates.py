"""Differences and products of rows of bytes and a query that is rounded to words of 16 bits.

Sums of products of both are exact.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    inlined,
    kernel,
    pointer_f32,
    pointer_i16,
    pointer_i64,
    pointer_u8,
    products_of_bytes,
)
from lance_spark.kernels.vector.byte_bounds import in_words

_BLOCK_ROWS = 256
_BLOCK_VALUES = 1 << 14
"""The sum of this many squared bytes is far below 32 bits."""


@inlined
def _products_of_rows(codes, num_rows, dimension, words, products, squares):
    code_at, word, sums = pointer_u8(codes), pointer_i16(words.ctypes.data), np.zeros(2, np.int32)
    whole, words_at, sums_at = dimension - dimension % 32, words.ctypes.data, sums.ctypes.data
    for i in range(num_rows):
        product, square = np.int64(0), np.int64(0)
        for first in range(0, whole, _BLOCK_VALUES):
            count = min(_BLOCK_VALUES, whole - first)
            products_of_bytes(codes + i * dimension + first, words_at + 2 * first, count, sums_at)
            product += sums[0]
            square += sums[1]
        for j in range(whole, dimension):
            code = np.int64(code_at[i * dimension + j])
            product += code * word[j]
            square += code * code
        products[i] = product
        squares[i] = square
    return 0


@inlined
def _estimates(products, squares, num_rows, length, share, is_dot, out):
    if is_dot:
        for i in range(num_rows):
            out[i] = np.float32(share * np.float64(products[i]))
    else:
        for i in range(num_rows):
            out[i] = np.float32(max(length + np.float64(squares[i]) - 2 * share * np.float64(products[i]), 0.0))
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def byte_estimates(parts, lengths, num_parts, dimension, query, is_dot, out):
    """out[i] = the sum over j of ``(codes[i, j] - query[j]) ** 2``, or for `is_dot` of ``codes[i, j] * query[j]``.

    Where the query is not finite, the results are not either.

    Args:
        parts: int64[num_parts]: the address of the codes of each part, uint8[n, d].
        lengths: int64[num_parts]: its rows.
        query: float32[d].
        out: float32[n], for all rows.
    """
    block, rows_of, wanted = pointer_i64(parts), pointer_i64(lengths), pointer_f32(query)
    results, far, length = pointer_f32(out), 0.0, 0.0
    values, words = np.empty(dimension), np.empty(dimension, np.int16)
    products, squares = np.empty(_BLOCK_ROWS, np.int32), np.empty(_BLOCK_ROWS, np.int64)
    for j in range(dimension):
        values[j] = wanted[j]
        far += abs(values[j])
    share, _ = in_words(values, dimension, words)
    for j in range(dimension):
        length += (share * np.float64(words[j])) ** 2
    done = 0
    for part in range(num_parts):
        for first in range(0, rows_of[part], _BLOCK_ROWS):
            num_rows = min(_BLOCK_ROWS, rows_of[part] - first)
            codes = block[part] + first * dimension
            _products_of_rows(codes, num_rows, dimension, words, products, squares)
            target = pointer_f32(out + (done + first) * 4)
            _estimates(products, squares, num_rows, length, share, is_dot, target)
        done += rows_of[part]
    if not far < np.inf:
        for i in range(done):
            results[i] = np.float32(far)
    return 0
