"""Distance bounds from 8-bit quantized copies of vectors: rows that cannot be among the nearest are left out.

A copy of a partition has the codes ``c`` (uint8) of its vectors: value ``j`` is about
``center[j] + low + step * c[j]``. The error of a vector is the length of its difference to what its codes say. By the
triangle inequality a distance is off by that length at most, a product by that length times the length of the query.
What the rounding of sums can add is part of the bounds, on both sides: a vector is left out only where the *computed*
distance of enough others is less. A vector with NaN, infinity, or values that are too large has an infinite error, so
it is never left out.

The query is rounded to words of 16 bits in the scale of the codes. Sums of products of both are exact.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    inlined,
    inlined_sum,
    kernel,
    pointer_f32,
    pointer_f64,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    products_of_panel,
)
from lance_spark.kernels.vector.vector_codes import offer_least

PANEL_ROWS = 16
"""Rows whose codes lie side by side, in pairs of values."""
_BLOCK_ROWS = 256
_LEAST_STEP = np.float32(1e-19)
"""Between two codes; less than the error of any vector. Roots of distances up to `_LARGEST_ROOT` are finite in steps of
it too, as float32."""
_INFINITY = 0x7F800000
"""Its bits as a float32; those of NaN are greater."""
_LARGEST_ROOT = np.float32(1e19)
"""The squares of greater distances are near the largest float32; beyond it all are infinite."""
_LARGEST_PRODUCT = 1e37
"""Sums of greater products can become infinite on the way."""


@inlined
def _margin(dimension):
    """More than the relative error of a sum of `dimension` products of float32, in any order, and a few operations."""
    return (np.float64(dimension) + 32) * 2.0**-23


@inlined
def _num_pairs(dimension):
    return (dimension + 7) // 8 * 4


@inlined_sum
def _length(values, dimension):
    total = 0.0
    for j in range(dimension):
        total += np.float64(values[j]) * np.float64(values[j])
    return np.sqrt(total)


@inlined
def _widest_of_row(value, start, dimension, center, room):
    """The bits of the greatest absolute difference to the center; those of infinity or more if one is not finite."""
    difference = pointer_f32(room)
    for j in range(dimension):
        difference[j] = value[start + j] - center[j]
    bits, widest = pointer_i32(room), np.int32(0)
    # Bits of positive floats are in the order of the floats, and the greatest integer is found by vector instructions.
    for j in range(dimension):
        widest = max(widest, bits[j] & np.int32(0x7FFFFFFF))
    return widest


@inlined_sum
def _code_row(value, start, dimension, center, low, step, code):
    """Writes the codes of a row; returns the squared lengths of (its error, the row, its codes)."""
    inverse, error, length, square = np.float32(1) / step, np.float32(0), np.float32(0), np.int32(0)
    for j in range(dimension):
        number = value[start + j]
        rest = number - center[j] - low
        digit = np.int32(min(max(rest * inverse + np.float32(0.5), np.float32(0)), np.float32(255)))
        code[j] = np.uint8(digit)
        rest -= step * np.float32(digit)
        error += rest * rest
        length += number * number
        square += digit * digit
    return error, length, square


@inlined
def _put_in_panel(pairs, num_pairs, row, panels):
    first = (row // PANEL_ROWS) * num_pairs * PANEL_ROWS + row % PANEL_ROWS
    for pair in range(num_pairs):
        panels[first + pair * PANEL_ROWS] = pairs[pair]
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def copy_in_bytes(vectors, num_rows, dimension, center, panels, squares, errors, scale):
    """Writes the copy of a partition.

    Args:
        vectors: float32[n, d].
        center: float32[d]: any vector near to them.
        panels: uint8[ceil(n / 16), 4 * ceil(d / 8), 16, 2], written: the codes; it is 0 before.
        squares: int32[n], written: the sums of the squared codes.
        errors: float32[n], written: the lengths of the errors, or more.
        scale: float64[3], written: (low, step, the length of the longest vector with a finite error).
    """
    value, middle, room = pointer_f32(vectors), pointer_f32(center), np.zeros(dimension + 8, np.float32)
    square, error, kind = pointer_i32(squares), pointer_f32(errors), pointer_i32(errors)
    num_pairs, widest, result = _num_pairs(dimension), np.int32(0), pointer_f64(scale)
    for i in range(num_rows):
        kind[i] = _widest_of_row(value, i * dimension, dimension, middle, room.ctypes.data)
        if kind[i] < _INFINITY:
            widest = max(widest, kind[i])
    pointer_i32(scale)[0] = widest
    low = -pointer_f32(scale)[0]
    step = max(low / np.float32(-127.5), _LEAST_STEP)
    far = _length(middle, dimension) + abs(low) * np.sqrt(np.float64(dimension))
    margin, longest = _margin(dimension), 0.0
    room[:] = 0
    for i in range(num_rows):
        square[i] = 0
        if kind[i] >= _INFINITY:
            error[i] = np.inf
            continue
        code = room.ctypes.data
        rest, length, square[i] = _code_row(value, i * dimension, dimension, middle, low, step, pointer_u8(code))
        _put_in_panel(pointer_u16(code), num_pairs, i, pointer_u16(panels))
        length = np.sqrt(np.float64(length)) * (1 + margin)
        # Each term is off by the rounding of its parts; squares below the least normal number are lost.
        rounding = (length + far) * 2.0**-20 + 1e-18 * np.sqrt(np.float64(dimension))
        error[i] = np.float32(np.sqrt(np.float64(rest)) * (1 + margin) + rounding)
        longest = max(longest, length) if error[i] < np.inf else longest
    result[0], result[1], result[2] = low, step, longest
    return 0


@inlined
def _rounded(number, limit):
    """A whole number nearest to a float, at most `limit` from 0, which is also that of NaN."""
    return np.int16(np.rint(min(max(number, -limit), limit))) if number == number else np.int16(0)


@inlined
def _limit(dimension):
    """The greatest words whose products with codes cannot leave 32 bits."""
    return np.floor(min(32767.0, (2.0**31 - 1) / (255 * np.float64(dimension))))


@inlined
def in_words(values, dimension, words):
    """Writes float64 values as words; returns (the value of a word, the length of the error)."""
    greatest, error, limit = 0.0, 0.0, _limit(dimension)
    for j in range(dimension):
        greatest = max(greatest, abs(values[j]))
    share = max(greatest / limit, 1e-100)
    for j in range(dimension):
        words[j] = _rounded(values[j] / share, limit)
        rest = values[j] - share * np.float64(words[j])
        error += rest * rest
    return share, np.sqrt(error) * (1 + 2.0**-20)


@inlined
def _terms_of_differences(query, center, scale, dimension, values, words):
    """Writes the query as words, in the scale of the codes.

    Returns (its squared length in steps, what products of codes and words are multiplied by, how far distances are
    off).
    """
    low, step = scale[0], scale[1]
    for j in range(dimension):
        values[j] = (np.float64(query[j]) - np.float64(center[j]) - low) / step
    share, error = in_words(values, dimension, words)
    length, root = share * _length(words, dimension), np.sqrt(np.float64(dimension))
    far = _length(query, dimension) + _length(center, dimension) + abs(low) * root
    # Products and lengths are near to each other where the distance is small: the root of their rounding counts.
    return length * length, -2 * share, step * (error + (length + 255 * root) * 2.0**-24) + far * 2.0**-40


@inlined
def _terms_of_products(query, center, scale, dimension, values, words):
    """Writes the query as words.

    Returns (its product with the vector whose codes are 0, what products of codes and words are multiplied by, how far
    products of float32 are off), the first two negative, as distances are.
    """
    low, step, base, length = scale[0], scale[1], 0.0, 0.0
    for j in range(dimension):
        values[j] = np.float64(query[j])
        value = np.float64(center[j]) + low
        base += value * values[j]
        length += value * value
    share, error = in_words(values, dimension, words)
    widest = 255 * step * np.sqrt(np.float64(dimension))
    reach = _length(query, dimension) * (scale[2] + widest + np.sqrt(length))
    # The distance is 1 - product, which is rounded once more.
    off = widest * error + (1 + reach) * 2 * _margin(dimension)
    return -base, -share * step, off if reach < _LARGEST_PRODUCT else np.inf


@inlined
def _bounds_of_differences(products, squares, errors, num_rows, terms, step, dimension, lows, highs):
    """Writes the least and greatest distances of rows, as roots."""
    (length, factor, room), margin = terms, _margin(dimension)
    more, less, off = np.float32(1 + margin), np.float32(1 - margin), np.float32(room * (1 + 2.0**-20))
    # Squares of differences below the least normal number are lost.
    tiny = np.float32(1e-18 * np.sqrt(np.float64(dimension)))
    for i in range(num_rows):
        square = length + np.float64(squares[i]) + factor * np.float64(products[i])
        near, error = step * np.float32(np.sqrt(max(square, 0.0))), errors[i] + off
        lows[i] = (near * less - error) * less - tiny
        highs[i] = (near * more + error) * more + tiny
    return 0


@inlined
def _bounds_of_products(products, errors, num_rows, terms, query_length, lows, highs):
    """Writes the least and greatest negative products of rows with the query."""
    base, factor, room = terms
    off = np.float32(room * (1 + 2.0**-20))
    for i in range(num_rows):
        near, error = np.float32(base + factor * np.float64(products[i])), errors[i] * query_length + off
        lows[i] = near - error
        highs[i] = near + error
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def near_by_bytes(vectors, copies, lengths, num_parts, dimension, query, is_dot, count, lows, places, addresses):
    """Finds the vectors of some partitions that can be among the `count` nearest; returns how many they are.

    Args:
        vectors: int64[num_parts]: the address of the vectors of each.
        copies: int64[num_parts, 5]: the addresses of its (panels, squares, errors, scale, center), as in
            `copy_in_bytes`; zeros for one without a copy, whose vectors are all found.
        lengths: int64[num_parts]: its number of vectors.
        query: float32[d].
        is_dot: whether great products are near; else small differences.
        lows: float32[n], for all vectors: working space.
        places: int64[n], written: the places of those that were found, ascending.
        addresses: int64[n], written: their addresses.
    """
    block, copy, length, wanted = pointer_i64(vectors), pointer_i64(copies), pointer_i64(lengths), pointer_f32(query)
    num_pairs = _num_pairs(dimension)
    values, words, heap = np.empty(dimension), np.zeros(num_pairs * 2, np.int16), np.empty(count, np.float32)
    products, highs = np.empty(_BLOCK_ROWS, np.int32), np.empty(_BLOCK_ROWS, np.float32)
    size, done, bound = 0, 0, np.float32(np.inf)
    query_length = np.float32(_length(wanted, dimension) * (1 + 2.0**-20))
    for part in range(num_parts):
        if not copy[part * 5]:
            low = pointer_f32(lows + done * 4)
            for i in range(length[part]):
                low[i] = -np.inf
            done += length[part]
            continue
        scale, middle = pointer_f64(copy[part * 5 + 3]), pointer_f32(copy[part * 5 + 4])
        if is_dot:
            terms = _terms_of_products(wanted, middle, scale, dimension, values, words)
        else:
            terms = _terms_of_differences(wanted, middle, scale, dimension, values, words)
        for first in range(0, length[part], _BLOCK_ROWS):
            num_rows, low = min(_BLOCK_ROWS, length[part] - first), pointer_f32(lows + (done + first) * 4)
            product, panel = products.ctypes.data, copy[part * 5] + first * num_pairs * 2
            for row in range(0, num_rows, PANEL_ROWS):
                products_of_panel(panel + row * num_pairs * 2, words.ctypes.data, num_pairs, product + row * 4)
            error = pointer_f32(copy[part * 5 + 2] + first * 4)
            if is_dot:
                _bounds_of_products(products, error, num_rows, terms, query_length, low, highs)
            else:
                square, step = pointer_i32(copy[part * 5 + 1] + first * 4), np.float32(scale[1])
                _bounds_of_differences(products, square, error, num_rows, terms, step, dimension, low, highs)
            for i in range(num_rows):
                if highs[i] < bound:
                    size = offer_least(heap, size, count, highs[i])
                    bound = heap[0] if size == count else bound
        done += length[part]
    if not is_dot and bound > _LARGEST_ROOT:
        bound = np.float32(np.inf)
    low, found, address, number, done = pointer_f32(lows), pointer_i64(places), pointer_i64(addresses), 0, 0
    for part in range(num_parts):
        for i in range(length[part]):
            if not low[done + i] > bound:
                found[number] = done + i
                address[number] = block[part] + i * dimension * 4
                number += 1
        done += length[part]
    return number
