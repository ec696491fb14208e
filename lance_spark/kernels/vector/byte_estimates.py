"""Differences and products of rows of bytes and a query that is rounded to words of 16 bits.

Sums of products of both are exact, so an estimate does not depend on the form in which the rows are compared: one after
the other, or 16 side by side in panels.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    inlined,
    kernel,
    pointer_f32,
    pointer_i16,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    products_of_panel,
)
from lance_spark.kernels.vector.byte_bounds import PANEL_ROWS, in_words, num_pairs_of, put_in_panel

_BLOCK_ROWS = 256
_BLOCK_VALUES = 1 << 14
"""The sum of this many squared bytes is far below 32 bits."""


@kernel("int64(int64, int64, int64, int64, int64)")
def codes_in_panels(codes, num_rows, dimension, panels, squares):
    """Writes rows of bytes side by side.

    Args:
        codes: uint8[n, d]; `dimension` is at most 32,768.
        panels: uint8[ceil(n / 16), 4 * ceil(d / 8), 16, 2], written; it is 0 before.
        squares: int32[n], written: the sums of the squared bytes.
    """
    code, square, num_pairs = pointer_u8(codes), pointer_i32(squares), num_pairs_of(dimension)
    room = np.zeros(2 * num_pairs, np.uint8)
    for i in range(num_rows):
        total = np.int32(0)
        for j in range(dimension):
            room[j] = code[i * dimension + j]
            total += np.int32(room[j]) * np.int32(room[j])
        square[i] = total
        put_in_panel(pointer_u16(room.ctypes.data), num_pairs, i, pointer_u16(panels))
    return 0


@inlined
def _sums_of_row(codes, words, count):
    """(the sum of products of bytes and words, the sum of squared bytes) of a part of a row."""
    code_at, word = pointer_u8(codes), pointer_i16(words)
    product, square = np.int32(0), np.int32(0)
    for j in range(count):
        # Without the casts numba computes in 64 bits.
        code = np.int32(code_at[j])
        product = np.int32(product + np.int32(code * np.int32(word[j])))
        square = np.int32(square + np.int32(code * code))
    return product, square


@inlined
def _products_of_rows(codes, num_rows, dimension, words, products, squares):
    for i in range(num_rows):
        product, square = np.int64(0), np.int64(0)
        for first in range(0, dimension, _BLOCK_VALUES):
            count = min(_BLOCK_VALUES, dimension - first)
            some, some_squares = _sums_of_row(codes + i * dimension + first, words.ctypes.data + 2 * first, count)
            product += some
            square += some_squares
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


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def byte_estimates(parts, copies, lengths, num_parts, dimension, query, is_dot, out):
    """out[i] = the sum over j of ``(codes[i, j] - query[j]) ** 2``, or for `is_dot` of ``codes[i, j] * query[j]``.

    Where the query is not finite, the results are not either.

    Args:
        parts: int64[num_parts]: the address of the codes of each part, uint8[n, d].
        copies: int64[num_parts, 2]: the addresses of its (panels, squares), as in `codes_in_panels`; zeros for one
            whose codes are not in panels.
        lengths: int64[num_parts]: its rows.
        query: float32[d].
        out: float32[n], for all rows.
    """
    block, copy, rows_of, wanted = pointer_i64(parts), pointer_i64(copies), pointer_i64(lengths), pointer_f32(query)
    num_pairs, results, far, length = num_pairs_of(dimension), pointer_f32(out), 0.0, 0.0
    values, words = np.empty(dimension), np.zeros(2 * num_pairs, np.int16)
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
            target = pointer_f32(out + (done + first) * 4)
            if copy[part * 2]:
                panel = copy[part * 2] + first * num_pairs * 2
                for row in range(0, num_rows, PANEL_ROWS):
                    product = products.ctypes.data + row * 4
                    products_of_panel(panel + row * num_pairs * 2, words.ctypes.data, num_pairs, product)
                square = pointer_i32(copy[part * 2 + 1] + first * 4)
                _estimates(products, square, num_rows, length, share, is_dot, target)
            else:
                codes = block[part] + first * dimension
                _products_of_rows(codes, num_rows, dimension, words, products, squares)
                _estimates(products, squares, num_rows, length, share, is_dot, target)
        done += rows_of[part]
    if not far < np.inf:
        for i in range(done):
            results[i] = np.float32(far)
    return 0
