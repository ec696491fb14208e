"""Assigns vectors to the nearest of some centroids or codewords, and sums vectors by centroid.

All arrays are C-contiguous. Arguments are addresses and numbers of elements; the caller guarantees that they fit each
other: nothing here comes from a file. Kernels return 0.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_f32, pointer_f64, pointer_i32, pointer_i64, pointer_u8

_COLUMNS = 32
LANES = 256
"""Vectors that `nearest_codewords` handles together."""


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def nearest_of_products(products, num_rows, num_centroids, norms, labels, scores):
    """The first centroid c with the least ``norms[c] - 2 * products[i, c]`` of each row, and that value.

    The least of each of some columns is kept, so that the comparisons are vector instructions.

    Args:
        products: float32[n, k]: of row and centroid.
        norms: float32[k].
        labels: int32[n], written.
        scores: float32[n], written.
    """
    product = pointer_f32(products)
    norm = pointer_f32(norms)
    label = pointer_i32(labels)
    score = pointer_f32(scores)
    least = np.empty(_COLUMNS, np.float32)
    where = np.empty(_COLUMNS, np.int32)
    whole = num_centroids // _COLUMNS * _COLUMNS
    for i in range(num_rows):
        start = i * num_centroids
        for lane in range(_COLUMNS):
            least[lane] = np.inf
            where[lane] = 0
        for first in range(0, whole, _COLUMNS):
            for lane in range(_COLUMNS):
                value = norm[first + lane] - np.float32(2) * product[start + first + lane]
                nearer = value < least[lane]
                least[lane] = value if nearer else least[lane]
                where[lane] = np.int32(first + lane) if nearer else where[lane]
        best, chosen = np.float32(np.inf), np.int32(0)
        for lane in range(_COLUMNS):
            # Of equal ones the first, as if they had been compared one after the other.
            if least[lane] < best or (least[lane] == best and where[lane] < chosen):
                best, chosen = least[lane], where[lane]
        for c in range(whole, num_centroids):
            value = norm[c] - np.float32(2) * product[start + c]
            if value < best:
                best, chosen = value, np.int32(c)
        label[i] = chosen
        score[i] = best
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def sum_by_label(vectors, num_rows, dimension, labels, sums, counts):
    """Adds each float32 vector to the float64 sum of its label, and counts it.

    Args:
        labels: int32[n].
        sums: float64[k, d], added to.
        counts: int64[k], added to.
    """
    value = pointer_f32(vectors)
    label = pointer_i32(labels)
    total = pointer_f64(sums)
    count = pointer_i64(counts)
    for i in range(num_rows):
        source = i * dimension
        target = np.int64(label[i]) * dimension
        for j in range(dimension):
            total[target + j] += value[source + j]
        count[label[i]] += 1
    return 0


@inlined
def _fill_lanes(value, first, size, stride, dimension, lanes, squares):
    """Transposes the values of `size` vectors from `first` on, and sums their squares."""
    for i in range(size):
        start = (first + i) * stride
        for j in range(dimension):
            lanes[j, i] = value[start + j]
    for i in range(LANES):
        squares[i] = 0
    for j in range(dimension):
        row = lanes[j]
        for i in range(LANES):
            squares[i] += row[i] * row[i]


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)", reassociate=True)
def nearest_codewords(vectors, num_vectors, stride, dimension, codewords, num_codewords, codes, losses):
    """The nearest codeword of each vector by squared l2, and its distance.

    Vectors are handled in blocks whose values are transposed, so that the comparisons of a block with one codeword are
    vector instructions.

    Args:
        vectors: float32: vector i begins at element ``i * stride`` and has `dimension` values.
        codewords: float32[k, dimension], k <= 256.
        codes: uint8[n], written.
        losses: float32[n], written.
    """
    value = pointer_f32(vectors)
    word = pointer_f32(codewords)
    code = pointer_u8(codes)
    loss = pointer_f32(losses)
    lanes = np.empty((dimension, LANES), np.float32)
    squares = np.empty(LANES, np.float32)
    best = np.empty(LANES, np.float32)
    distance = np.empty(LANES, np.float32)
    chosen = np.empty(LANES, np.int32)
    for first in range(0, num_vectors, LANES):
        size = min(LANES, num_vectors - first)
        _fill_lanes(value, first, size, stride, dimension, lanes, squares)
        for i in range(LANES):
            best[i] = np.inf
            chosen[i] = 0
        for c in range(num_codewords):
            at = c * dimension
            norm = np.float32(0)
            for j in range(dimension):
                norm += word[at + j] * word[at + j]
            for i in range(LANES):
                distance[i] = norm
            whole = dimension // 8 * 8
            for j in range(0, whole, 8):
                w0 = np.float32(-2) * word[at + j]
                w1 = np.float32(-2) * word[at + j + 1]
                w2 = np.float32(-2) * word[at + j + 2]
                w3 = np.float32(-2) * word[at + j + 3]
                w4 = np.float32(-2) * word[at + j + 4]
                w5 = np.float32(-2) * word[at + j + 5]
                w6 = np.float32(-2) * word[at + j + 6]
                w7 = np.float32(-2) * word[at + j + 7]
                for i in range(LANES):
                    distance[i] += (
                        w0 * lanes[j, i]
                        + w1 * lanes[j + 1, i]
                        + w2 * lanes[j + 2, i]
                        + w3 * lanes[j + 3, i]
                        + w4 * lanes[j + 4, i]
                        + w5 * lanes[j + 5, i]
                        + w6 * lanes[j + 6, i]
                        + w7 * lanes[j + 7, i]
                    )
            for j in range(whole, dimension):
                scaled = np.float32(-2) * word[at + j]
                for i in range(LANES):
                    distance[i] += scaled * lanes[j, i]
            for i in range(LANES):
                nearer = distance[i] < best[i]
                best[i] = distance[i] if nearer else best[i]
                chosen[i] = np.int32(c) if nearer else chosen[i]
        for i in range(size):
            code[first + i] = np.uint8(chosen[i])
            loss[first + i] = max(best[i] + squares[i], np.float32(0))
    return 0
