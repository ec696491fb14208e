"""Which rows can be among the k nearest of many queries, by products of integers.

Values are rounded to 16-bit multiples of a scale that each vector has, so products are sums of integers and add no
errors. By how much a product of two vectors differs from that of their multiples has a bound, so each row has a least
and a greatest distance to a query. A row whose least distance is above the k-th of the greatest distances is not among
the k nearest.

A machine multiplies twice as many 16-bit integers at a time as numbers of float32.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    inlined,
    inlined_sum,
    kernel,
    near_of_panel,
    pointer_f32,
    pointer_i32,
)
from lance_spark.kernels.vector.vector_codes import least

PANEL_ROWS = 16
GROUP_QUERIES = 6
"""Rows and queries of `near_of_panel`."""

HIGHEST_SQUARE = 1e37
LOWEST_VALUE = 1e-30
"""Rows with a larger square, or whose greatest value is smaller but not 0, are always kept: distances to them may
overflow or have lost digits."""

MAX_MULTIPLE = 32767

ROUNDING = 0.51
"""A value differs from the multiple of its scale by at most this part of the scale."""


@inlined_sum
def _square(values, at, dimension):
    total = 0.0
    for j in range(dimension):
        value = np.float64(values[at + j])
        total += value * value
    return total


@inlined
def _greatest_bits(words, at, dimension):
    """The bits of the greatest absolute value; those of NaN are greater than of any number."""
    greatest = np.int32(0)
    for j in range(dimension):
        greatest = max(greatest, words[at + j] & np.int32(0x7FFFFFFF))
    return greatest


@inlined
def _pack_row(values, at, dimension, factor, panel, row):
    """Writes the multiples of a row into its place in a panel, int16[num_pairs, 16, 2]."""
    half = np.float32(0.5)
    whole = dimension // 2
    for i in range(whole):
        low = np.int32(np.floor(values[at + 2 * i] * factor + half))
        high = np.int32(np.floor(values[at + 2 * i + 1] * factor + half))
        panel[i * PANEL_ROWS + row] = (low & 0xFFFF) | (high << 16)
    if dimension % 2:
        low = np.int32(np.floor(values[at + dimension - 1] * factor + half))
        panel[whole * PANEL_ROWS + row] = low & 0xFFFF
    return 0


@inlined
def _pack_rows(vectors, num_rows, dimension, length, is_l2, is_cosine, slack, zero_low, packed, terms, number):
    """Packs rows into panels.

    `terms` are float32[3, number]: the scale, and what is added to a product for the least and the greatest distance.
    """
    values, words, scratch = pointer_f32(vectors), pointer_i32(vectors), pointer_i32(terms)
    scales, lows, highs = pointer_f32(terms), pointer_f32(terms + number * 4), pointer_f32(terms + number * 8)
    num_pairs = (dimension + 1) // 2
    for i in range(num_rows):
        at = i * dimension
        panel = pointer_i32(packed + i // PANEL_ROWS * num_pairs * PANEL_ROWS * 4)
        square = _square(values, at, dimension)
        scratch[i] = _greatest_bits(words, at, dimension)
        largest = np.float64(scales[i])
        scale, low, high = 0.0, 0.0, 0.0
        if largest == 0:
            low = zero_low
        elif not (square < HIGHEST_SQUARE and largest >= LOWEST_VALUE and (square >= LOWEST_VALUE or not is_cosine)):
            low, high = -np.inf, np.inf
        else:
            scale = max(np.sqrt(square) / length, largest / MAX_MULTIPLE)
            if is_l2:
                low, high = square * (0.5 - slack), square * (0.5 + slack)
        factor = np.float32(0)
        if scale > 0:
            factor = np.float32(1 / scale)
            if is_cosine:
                scale /= np.sqrt(square)
        _pack_row(values, at, dimension, factor, panel, i % PANEL_ROWS)
        scales[i], lows[i], highs[i] = np.float32(scale), np.float32(low), np.float32(high)
    for i in range(num_rows, number):
        scales[i], lows[i], highs[i] = np.float32(0), np.float32(np.inf), np.float32(np.inf)
    return 0


@inlined
def _keep_nearest(found, capacity, count, k, room, bound, heap):
    """Drops rows that are above the k-th greatest distance; returns (bound, how many are left)."""
    lows, places = pointer_f32(found), pointer_i32(found + capacity * 8)
    highs = pointer_f32(found + capacity * 4)
    kept = pointer_f32(heap)
    if least(found + capacity * 4, count, k, heap) == k:
        bound = min(bound, kept[0] + room)
    size = 0
    for i in range(count):
        if lows[i] <= bound:
            lows[size], highs[size], places[size] = lows[i], highs[i], places[i]
            size += 1
    return bound, size


@inlined
def _add_near(work, number, terms, block_rows, first, base, queries, num_queries, k, counts, found, capacity, heap):
    """Adds the rows of a panel that are near to a query to those found for it; its count becomes -1 if there are too
    many."""
    sums, bits = pointer_i32(work + number * 64), pointer_i32(work + GROUP_QUERIES * 64)[number]
    scales, lows = pointer_f32(terms), pointer_f32(terms + block_rows * 4)
    highs = pointer_f32(terms + block_rows * 8)
    found_lows, found_highs = pointer_f32(found), pointer_f32(found + capacity * 4)
    places, count = pointer_i32(found + capacity * 8), pointer_i32(counts)
    scale, error = pointer_f32(queries)[0], pointer_f32(queries + num_queries * 4)[0]
    bound, room = pointer_f32(queries + num_queries * 8), pointer_f32(queries + num_queries * 12)[0]
    for r in range(PANEL_ROWS):
        if not bits >> r & 1:
            continue
        row = first + r
        product = np.float32(sums[r]) * scale
        low = lows[row] - scales[row] * (product + error)
        if count[0] == capacity:
            bound[0], count[0] = _keep_nearest(found, capacity, count[0], k, room, bound[0], heap)
            if count[0] > capacity // 2:
                bound[0], count[0] = np.float32(np.nan), -1
        if not (low <= bound[0] and low < np.inf):
            continue
        found_lows[count[0]] = low
        found_highs[count[0]] = highs[row] - scales[row] * (product - error)
        places[count[0]] = np.int32(base + row)
        count[0] += 1
    return 0


@kernel(
    "int64(int64, int64, int64, float64, int64, int64, float64, float64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64)"
)
def near_rows(
    vectors,
    num_rows,
    dimension,
    length,
    is_l2,
    is_cosine,
    slack,
    zero_low,
    queries,
    num_queries,
    query_terms,
    k,
    counts,
    found,
    capacity,
    packed,
    terms,
    block_rows,
    work,
):
    """Finds for each query rows among which its k nearest are.

    The distance here is that of `kernels.vector.distances` without what is the same for all rows: half of the square
    of a row, for l2, minus the product of row and query.

    Args:
        vectors: float32[num_rows, dimension].
        length: how long a vector is in its scales, at most; that of multiples is below the root of 2 ** 31.
        is_l2, is_cosine: the metric, else it is dot.
        slack: rounding errors of distances, as a part of the square of a row.
        zero_low: the least distance of a row of zeros, such as infinity if it never counts.
        queries: int16[num_queries, 2 * ceil(dimension / 2)], multiples; their number is one of whole groups.
        query_terms: float32[4, num_queries]: scale; error, in scales of a row; the distance above which rows do not
            count, NaN if none does; twice the error that does not depend on rows.
        k: at least 1.
        counts: int32[num_queries]: becomes the number of rows found, -1 if there are too many.
        found: for each query float32[2, capacity] and int32[capacity], the last are the numbers of rows.
        capacity: at least 4 * k.
        packed, terms: working space: int16[block_rows, 2 * ceil(dimension / 2)] and float32[3, block_rows].
        block_rows: a multiple of `PANEL_ROWS`.
        work: working space of 128 integers and k numbers of 4 bytes each.
    """
    num_pairs = (dimension + 1) // 2
    of_query, entry, heap = num_queries * 4, capacity * 12, work + 512
    bounds, rooms = pointer_f32(query_terms + of_query * 2), pointer_f32(query_terms + of_query * 3)
    count = pointer_i32(counts)
    for base in range(0, num_rows, block_rows):
        size, start = min(block_rows, num_rows - base), vectors + base * dimension * 4
        _pack_rows(start, size, dimension, length, is_l2, is_cosine, slack, zero_low, packed, terms, block_rows)
        for group in range(0, num_queries, GROUP_QUERIES):
            wanted, mine = queries + group * num_pairs * 4, query_terms + group * 4
            for first in range(0, size, PANEL_ROWS):
                panel, row_terms = packed + first * num_pairs * 4, terms + first * 4
                if not near_of_panel(panel, row_terms, block_rows * 4, wanted, num_pairs, mine, of_query, work):
                    continue
                for number in range(GROUP_QUERIES):
                    q = group + number
                    _add_near(
                        work, number, terms, block_rows, first, base, query_terms + q * 4, num_queries, k,
                        counts + q * 4, found + q * entry, capacity, heap,
                    )  # fmt: skip
    for q in range(num_queries):
        if count[q] > 0:
            bounds[q], count[q] = _keep_nearest(found + q * entry, capacity, count[q], k, rooms[q], bounds[q], heap)
    return 0
