"""Distances between one query and the codes of many vectors, and the choice of the least of many distances.

Addresses and lengths are those of the caller's own arrays. NaN is never among the least. Sums are added in any order.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_f32, pointer_u8

_BLOCK_ROWS = 4096


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def squared_l2_u8(codes, num_rows, dimension, query, out):
    """out[i] = sum over j of (codes[i, j] - query[j]) ** 2; codes are uint8, query and out float32."""
    values = pointer_u8(codes)
    wanted = pointer_f32(query)
    results = pointer_f32(out)
    for i in range(num_rows):
        start = i * dimension
        total = np.float32(0)
        for j in range(dimension):
            difference = np.float32(values[start + j]) - wanted[j]
            total += difference * difference
        results[i] = total
    return 0


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def dot_u8(codes, num_rows, dimension, query, out):
    """out[i] = sum over j of codes[i, j] * query[j]; types as `squared_l2_u8`."""
    values = pointer_u8(codes)
    wanted = pointer_f32(query)
    results = pointer_f32(out)
    for i in range(num_rows):
        start = i * dimension
        total = np.float32(0)
        for j in range(dimension):
            total += np.float32(values[start + j]) * wanted[j]
        results[i] = total
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)", reassociate=True)
def codeword_table(query, codebook, num_sub_vectors, num_codewords, width, is_dot, out):
    """out[j, c] = what codeword c of sub-vector j adds: the squared difference, or minus the product for `is_dot`.

    `codebook` is float32[num_sub_vectors, num_codewords, width], `query` float32[num_sub_vectors * width].
    """
    wanted = pointer_f32(query)
    words = pointer_f32(codebook)
    results = pointer_f32(out)
    for j in range(num_sub_vectors):
        for c in range(num_codewords):
            start = (j * num_codewords + c) * width
            total = np.float32(0)
            if is_dot:
                for i in range(width):
                    total -= wanted[j * width + i] * words[start + i]
            else:
                for i in range(width):
                    difference = wanted[j * width + i] - words[start + i]
                    total += difference * difference
            results[j * num_codewords + c] = total
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64)", reassociate=True)
def sums_of_table(table, num_sub_vectors, num_codewords, codes, num_rows, out):
    """out[i] = sum over j of table[j, codes[j, i]]; codes are uint8[num_sub_vectors, num_rows].

    Returns -1 if a code is not below `num_codewords`.
    """
    entries = pointer_f32(table)
    numbers = pointer_u8(codes)
    results = pointer_f32(out)
    if num_codewords < 256:
        for place in range(num_sub_vectors * num_rows):
            if numbers[place] >= num_codewords:
                return -1
    for first in range(0, num_rows, _BLOCK_ROWS):
        last = min(first + _BLOCK_ROWS, num_rows)
        for i in range(first, last):
            results[i] = np.float32(0)
        j = 0
        while j + 4 <= num_sub_vectors:
            a, b, c, d = j * num_rows, (j + 1) * num_rows, (j + 2) * num_rows, (j + 3) * num_rows
            for i in range(first, last):
                results[i] += (
                    entries[j * num_codewords + numbers[a + i]]
                    + entries[(j + 1) * num_codewords + numbers[b + i]]
                    + entries[(j + 2) * num_codewords + numbers[c + i]]
                    + entries[(j + 3) * num_codewords + numbers[d + i]]
                )
            j += 4
        while j < num_sub_vectors:
            for i in range(first, last):
                results[i] += entries[j * num_codewords + numbers[j * num_rows + i]]
            j += 1
    return 0


@kernel("int64(int64, int64, int64, int64)")
def least(distances, num_rows, count, heap):
    """Puts the `count` least of float32[num_rows] into `heap`, the greatest of them first; returns how many there are.

    NaN is left out.
    """
    values = pointer_f32(distances)
    kept = pointer_f32(heap)
    size = 0
    for i in range(num_rows):
        value = values[i]
        if size == count:
            if not value < kept[0]:
                continue
            place = 0
            while True:
                child = 2 * place + 1
                if child >= size:
                    break
                if child + 1 < size and kept[child + 1] > kept[child]:
                    child += 1
                if not kept[child] > value:
                    break
                kept[place] = kept[child]
                place = child
            kept[place] = value
        elif value == value:
            place = size
            size += 1
            while place > 0:
                parent = (place - 1) // 2
                if not kept[parent] < value:
                    break
                kept[place] = kept[parent]
                place = parent
            kept[place] = value
    return size
