"""Kernels of RaBitQ: the rotation of vectors, their magnitude codes, and estimates of distances from codes.

Arguments are addresses and numbers of elements; the caller guarantees that they fit each other. Values that come from a
file are codes and factors, of which any is allowed. Kernels return 0.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    bits_of_panel,
    inlined,
    inlined_sum,
    kernel,
    pointer_f32,
    pointer_f64,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u32,
    pointer_u64,
    prefetch,
)
from lance_spark.kernels.vector.rabitq_unpack import unpacked_row
from lance_spark.kernels.vector.vector_codes import offer_least

_STEPS = 24
"""Scales that are tried for each vector at first."""
_FINE_STEPS = 13
"""Scales between the neighbours of the best of them, that are tried then."""
_LEAST = 0.2
_MOST = 1.05
"""The range of them, as shares of the scale at which the largest value has about the largest code. The best ones are
about 0.25 with one bit, and grow with the number of bits."""


_ROUNDS = 4


@inlined
def _transform(value, start, size, scale):
    """The Walsh-Hadamard transform of `size` values, a power of two, multiplied by `scale`."""
    half = 1
    while half < size:
        for first in range(start, start + size, 2 * half):
            for j in range(first, first + half):
                low, high = value[j], value[j + half]
                value[j] = low + high
                value[j + half] = low - high
        half *= 2
    for j in range(start, start + size):
        value[j] *= scale
    return 0


@kernel("int64(int64, int64, int64, int64)")
def rotate(vectors, num_vectors, dimension, flips):
    """Rotates each vector: four rounds of flipped signs and Walsh-Hadamard transforms. Lengths and products stay.

    A transform takes a power of two of values. If that is not all of them, rounds transform the first and the last ones
    in turn, and then replace the halves of the vector by their sum and difference.

    Args:
        vectors: float32[n, d], replaced.
        flips: float32[4, d]: 1 or -1.
    """
    value, flip = pointer_f32(vectors), pointer_f32(flips)
    size = 1
    while size * 2 <= dimension:
        size *= 2
    scale = np.float32(1 / np.sqrt(np.float64(size)))
    half = dimension // 2
    for i in range(num_vectors):
        start = i * dimension
        for number in range(_ROUNDS):
            for j in range(dimension):
                value[start + j] *= flip[number * dimension + j]
            first = start if number % 2 == 0 else start + dimension - size
            _transform(value, first, size, scale)
            if size < dimension:
                for j in range(start, start + half):
                    low, high = value[j], value[j + half]
                    value[j] = low + high
                    value[j + half] = low - high
        if size < dimension:
            for j in range(start, start + dimension):
                value[j] *= np.float32(0.25)
    return 0


@inlined_sum
def _scale_of(shares, dimension, num_bits, limit):
    """Scale, among some candidates, whose codes have the least angle to the shares; 0 if there are only zeros."""
    largest = np.float32(0)
    for j in range(dimension):
        largest = max(largest, shares[j])
    best, chosen = np.float32(-1), np.float32(0)
    if not largest > 0:
        return chosen
    full = np.float32((1 << num_bits) + 9) / largest
    first, width = full * np.float32(_LEAST), full * np.float32((_MOST - _LEAST) / (_STEPS - 1))
    for num_steps in (_STEPS, _FINE_STEPS):
        for step in range(num_steps):
            scale = first + width * np.float32(step)
            product, squares = np.float32(0), np.float32(0)
            for j in range(dimension):
                number = min(np.floor(scale * shares[j] + np.float32(1e-5)), limit) + np.float32(0.5)
                product += number * shares[j]
                squares += number * number
            cosine = product / np.sqrt(squares)
            if cosine > best:
                best, chosen = cosine, scale
        first, width = chosen - width, width * np.float32(2 / (_FINE_STEPS - 1))
    return chosen


@inlined_sum
def _sums_of_row(value, center, shares, dimension, sums):
    """Writes sums over the values of a row, of which `shares` are the absolute numbers in codes: see `encode`."""
    zero = np.float64(0)
    square, of_center, halves, center_halves, product, center_product = zero, zero, zero, zero, zero, zero
    for j in range(dimension):
        own, middle = np.float64(value[j]), np.float64(center[j])
        number = np.float64(shares[j])
        size = abs(own)
        turned = np.copysign(np.float64(1), own) * middle
        square += own * own
        of_center += own * middle
        halves += size
        center_halves += turned
        product += size * number
        center_product += turned * number
    sums[0], sums[1] = square, of_center
    sums[2], sums[3] = halves / 2, center_halves / 2
    sums[4], sums[5] = product, center_product
    return square


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def encode(residuals, num_vectors, dimension, num_bits, centers, labels, signs, codes, sums):
    """Codes of rotated residuals r, and what the factors of their estimates are made of.

    A magnitude is ``floor(t * |r| / length)``, at most ``2 ** num_bits - 1``, with the t that gives the least angle to
    the vector. Its code is that, for values with a sign bit its inverse.

    Args:
        residuals: float32[n, d].
        num_bits: of a magnitude; 0 for signs only.
        centers: float32[p, d]: rotated centroids c.
        labels: int32[n]: which of them belongs to each row.
        signs: uint8[n, d / 8], written: a bit, least significant first, is 1 for a value without a sign bit.
        codes: uint8[n, d], written unless `num_bits` is 0.
        sums: float64[n, 6], written: r·r, r·c, r·s, c·s, r·m, c·m, with the signs s of r, of one half each, and m of
            magnitudes and one half with these signs.
    """
    value, word, label = pointer_f32(residuals), pointer_u32(residuals), pointer_i32(labels)
    sign, code = pointer_u8(signs), pointer_u8(codes)
    limit = np.float32((1 << num_bits) - 1)
    shares = np.empty(dimension, np.float32)
    for i in range(num_vectors):
        start = i * dimension
        length = np.float32(0)
        for j in range(dimension):
            length += value[start + j] * value[start + j]
        length = np.sqrt(length)
        for j in range(dimension):
            shares[j] = abs(value[start + j]) / length if length > 0 else np.float32(0)
        scale = _scale_of(shares, dimension, num_bits, limit) if num_bits else np.float32(0)
        for j in range(dimension):
            number = min(np.floor(scale * shares[j] + np.float32(1e-5)), limit)
            shares[j] = number + np.float32(0.5)
            if num_bits:
                inverse = np.uint8(0) - np.uint8(word[start + j] >> 31)
                code[start + j] = (np.uint8(number) ^ inverse) & np.uint8((1 << num_bits) - 1)
        for byte in range(dimension // 8):
            bits = 0
            for bit in range(8):
                bits |= (1 - (word[start + byte * 8 + bit] >> 31)) << bit
            sign[i * (dimension // 8) + byte] = np.uint8(bits)
        center = pointer_f32(centers + np.int64(label[i]) * dimension * 4)
        _sums_of_row(pointer_f32(residuals + start * 4), center, shares, dimension, pointer_f64(sums + i * 48))
    return 0


PANEL_ROWS = 8
"""Rows whose sign bits lie side by side."""
_LEVELS = 255
_ZERO = np.float32(0)
_BLOCK_ROWS = 256
_GROUP_ROWS = 16


@inlined_sum
def _product(codes, start, dimension, wanted):
    total = np.float32(0)
    for j in range(dimension):
        total += np.float32(codes[start + j]) * wanted[j]
    return total


@inlined
def _in_bits(wanted, dimension, planes):
    """Writes the query as numbers of 8 bits, bit by bit: uint64[ceil(d / 64), 8], which is 0 before.

    Returns (low, step, error, halves): value j is about ``low + step * number``; the product with signs of one half
    each, which is off by `error` at most, is the sum of values of set bits without `halves`.
    """
    low, high, halves = wanted[0], wanted[0], np.float32(0)
    for j in range(dimension):
        low, high = min(low, wanted[j]), max(high, wanted[j])
        halves += wanted[j] / np.float32(2)
    step, error = (high - low) / np.float32(_LEVELS), np.float32(0)
    for j in range(dimension):
        number = np.int64(np.rint((wanted[j] - low) / step)) if step > 0 else np.int64(0)
        error += abs(wanted[j] - (low + step * np.float32(number))) / np.float32(2)
        for bit in range(8):
            planes[(j >> 6) * 8 + bit] |= np.uint64(number >> bit & 1) << np.uint64(j & 63)
    return low, step, error, halves


@inlined
def _least_distances(panels, num_rows, factors, stride, terms, planes, num_words, query, room, results):
    """results[i] = the least distance that the signs of row i leave open, for at most `_BLOCK_ROWS` rows."""
    offset, share, reach = terms
    low, step, error, halves = query
    sums, counts = room, room + 8 * _BLOCK_ROWS
    for row in range(0, num_rows, PANEL_ROWS):
        bits_of_panel(panels + row * num_words * 8, num_words, planes, sums + row * 8, counts + row * 8)
    total, count = pointer_i64(sums), pointer_i64(counts)
    added, scale, bound = pointer_f32(factors), pointer_f32(factors + stride * 4), pointer_f32(factors + stride * 8)
    for i in range(num_rows):
        product = step * np.float32(total[i]) + low * np.float32(count[i]) - halves
        results[i] = offset + share * added[i] + scale[i] * product - (bound[i] * reach + abs(scale[i]) * error)
    return 0


@inlined
def _chosen(least, num_rows, bound, chosen):
    """Writes the rows whose least distance is not above a bound; returns how many they are."""
    number = 0
    for start in range(0, num_rows, _GROUP_ROWS):
        stop, near = min(start + _GROUP_ROWS, num_rows), np.int32(0)
        for i in range(start, stop):
            near += np.int32(not least[i] > bound)
        if near:
            for i in range(start, stop):
                if not least[i] > bound:
                    chosen[number] = i
                    number += 1
    return number


@inlined
def _ask_for(codes, panels, factors, row, num_words, num_rows, are_packed):
    """Asks for what a row is compared by."""
    prefetch(factors + 4 * row)
    prefetch(factors + 4 * (num_rows + row))
    if are_packed:
        for word in range(num_words):
            prefetch(codes + (row * num_words + word) * 32)
            prefetch(panels + ((row // PANEL_ROWS * num_words + word) * PANEL_ROWS) * 8)
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, float32, int64, int64, int64, int64)")
def code_distances(parts, panels, factors, lengths, num_parts, dimension, query, middle, terms, count, are_packed, out):
    """out[i] = the estimated distance of row i; NaN for rows that, by their signs, are not among the `count` nearest.

    An estimate is ``offset + share * add + scale * (codes · query - middle)``. Signs alone estimate it in the same way,
    with halves for codes; a bound of the error is taken off that.

    Args:
        parts: int64[num_parts]: the address of the codes of each part, uint8[n, d]; if they are packed, of its
            magnitudes of four bits as `unpacked_row` takes them, at a multiple of 8.
        panels: int64[num_parts]: of its sign bits, uint64[ceil(n / 8), ceil(d / 64), 8]; not read if `count` is 0,
            unless codes are packed.
        factors: int64[num_parts]: of float32[2, n] (add, scale), behind them those of the signs: float32[3, n] (add,
            scale, error), which are not read if `count` is 0.
        lengths: int64[num_parts]: rows of each part.
        query: float32[d].
        terms: float32[num_parts, 3]: (offset, share, what the error is multiplied by).
        count: 0 for the estimates of all rows.
        are_packed: whether the codes are.
        out: float32.
    """
    block, panel, factor, length = pointer_i64(parts), pointer_i64(panels), pointer_i64(factors), pointer_i64(lengths)
    wanted, term = pointer_f32(query), pointer_f32(terms)
    num_words = (dimension + 63) // 64
    # Addresses of these arrays are only taken inside the loop: they live until it ends.
    planes, room = np.zeros(num_words * 8, np.uint64), np.empty(2 * _BLOCK_ROWS, np.int64)
    least, row_codes = np.empty(_BLOCK_ROWS, np.float32), np.empty(num_words * 8, np.uint64)
    in_bits = _in_bits(wanted, dimension, planes) if count else (_ZERO, _ZERO, _ZERO, _ZERO)
    heap, size, done = np.empty(max(count, 1), np.float32), 0, 0
    chosen = np.empty(_BLOCK_ROWS, np.int64)
    for part in range(num_parts):
        num_rows, codes, results = length[part], pointer_u8(block[part]), pointer_f32(out + done * 4)
        its_terms = term[part * 3], term[part * 3 + 1], term[part * 3 + 2]
        added, scale = pointer_f32(factor[part]), pointer_f32(factor[part] + num_rows * 4)
        for first in range(0, num_rows, _BLOCK_ROWS):
            last = min(first + _BLOCK_ROWS, num_rows)
            if count:
                _least_distances(
                    panel[part] + first * num_words * 8,
                    last - first,
                    factor[part] + (2 * num_rows + first) * 4,
                    num_rows,
                    its_terms,
                    planes.ctypes.data,
                    num_words,
                    in_bits,
                    room.ctypes.data,
                    pointer_f32(least.ctypes.data),
                )
            number = _chosen(least, last - first, heap[0] if size and size == count else np.inf, chosen)
            for place in range(number):
                _ask_for(block[part], panel[part], factor[part], first + chosen[place], num_words, num_rows, are_packed)
            for i in range(first, last):
                results[i] = np.nan
            for place in range(number):
                i = first + chosen[place]
                if size and size == count and least[i - first] > heap[0]:
                    continue
                if are_packed:
                    unpacked_row(pointer_u64(panel[part]), pointer_u64(block[part]), i, num_words, row_codes)
                    product = _product(pointer_u8(row_codes.ctypes.data), 0, dimension, wanted) - middle
                else:
                    product = _product(codes, i * dimension, dimension, wanted) - middle
                results[i] = its_terms[0] + its_terms[1] * added[i] + scale[i] * product
                if count:
                    size = offer_least(heap, size, count, results[i])
        done += num_rows
    return 0
