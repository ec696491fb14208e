"""Distances between one query and the codes of many vectors, and the choice of the least of many distances.

Addresses and lengths are those of the caller's own arrays. NaN is never among the least. Sums are added in any order.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, inlined_sum, kernel, pointer_f32, pointer_i64, pointer_u8, pointer_u64

_BLOCK_ROWS = 4096
_GROUP_ROWS = 64


@inlined_sum
def _codeword_table(wanted, centroid, words, num_sub_vectors, num_codewords, width, is_dot, results):
    """results[j, c] = what codeword c of sub-vector j adds; `words` are [num_sub_vectors, width, num_codewords]."""
    for place in range(num_sub_vectors * num_codewords):
        results[place] = np.float32(0)
    for j in range(num_sub_vectors):
        first = j * num_codewords
        for i in range(width):
            value = wanted[j * width + i]
            start = (j * width + i) * num_codewords
            if is_dot:
                for c in range(num_codewords):
                    results[first + c] -= value * words[start + c]
            else:
                value -= centroid[j * width + i]
                for c in range(num_codewords):
                    difference = value - words[start + c]
                    results[first + c] += difference * difference
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def codeword_table(query, centroid, codebook, num_sub_vectors, num_codewords, width, is_dot, out):
    """out[j, c] = what codeword c of sub-vector j adds: the squared difference to the residual of the query, or minus
    the product with the query for `is_dot`.

    `codebook` is float32[num_sub_vectors, width, num_codewords], `query` and `centroid`
    float32[num_sub_vectors * width].
    """
    return _codeword_table(
        pointer_f32(query),
        pointer_f32(centroid),
        pointer_f32(codebook),
        num_sub_vectors,
        num_codewords,
        width,
        is_dot,
        pointer_f32(out),
    )


@inlined_sum
def _sums_of_table(entries, num_sub_vectors, num_codewords, numbers, num_rows, results):
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


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def sums_of_codewords(
    parts, lengths, num_parts, query, centroids, codebook, num_sub_vectors, num_codewords, width, is_dot, table, out
):
    """out[i] = what the codewords of row i add, in the tables of its part.

    `parts` and `lengths` are as in `kernels.vector.distances`, codes uint8[num_sub_vectors, rows of the part];
    `centroids` (int64) has the address of the centroid of each part; `table` is working space of a table; the others
    are as in `codeword_table`. Returns -1 if a code is not below `num_codewords`.
    """
    block, length, centroid = pointer_i64(parts), pointer_i64(lengths), pointer_i64(centroids)
    wanted, words, entries = pointer_f32(query), pointer_f32(codebook), pointer_f32(table)
    done = 0
    for part in range(num_parts):
        if part == 0 or not is_dot:
            middle = pointer_f32(centroid[part])
            _codeword_table(wanted, middle, words, num_sub_vectors, num_codewords, width, is_dot, entries)
        codes, results = pointer_u8(block[part]), pointer_f32(out + done * 4)
        if _sums_of_table(entries, num_sub_vectors, num_codewords, codes, length[part], results) < 0:
            return -1
        done += length[part]
    return 0


@inlined
def _is_before(key, row, other_key, other_row):
    return key < other_key or (key == other_key and row < other_row)


@inlined
def _sink(keys, rows, size, key, row):
    """Puts an entry at the top of a heap with the last entry first, and moves it down."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(keys[child], rows[child], keys[child + 1], rows[child + 1]):
            child += 1
        if not _is_before(key, row, keys[child], rows[child]):
            break
        keys[place] = keys[child]
        rows[place] = rows[child]
        place = child
    keys[place] = key
    rows[place] = row
    return 0


@inlined
def offer_row(keys, rows, size, count, key, row):
    """Offers a row to the `count` first by (key, row), a heap with the last of them first, of which there are `size`;
    returns how many there are then. NaN is not taken."""
    if size == count:
        if key <= keys[0] and _is_before(key, row, keys[0], rows[0]):
            _sink(keys, rows, size, key, row)
        return size
    if key != key:
        return size
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if not _is_before(keys[parent], rows[parent], key, row):
            break
        keys[place] = keys[parent]
        rows[place] = rows[parent]
        place = parent
    keys[place] = key
    rows[place] = row
    return size + 1


@inlined
def put_in_order(keys, rows, size):
    """Sorts a heap of `offer_row`; returns its size."""
    for last in range(size - 1, 0, -1):
        key, row = keys[last], rows[last]
        keys[last] = keys[0]
        rows[last] = rows[0]
        _sink(keys, rows, last, key, row)
    return size


@inlined
def _has_any_within(values, start, stop, bound):
    """Whether one of the values [start, stop) is not above a bound; NaN is."""
    number = np.int32(0)
    for i in range(start, stop):
        number += np.int32(values[i] <= bound)
    return number > 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def nearest_rows(distances, row_ids, lengths, num_parts, count, found_keys, found_rows):
    """Puts the `count` first rows by (distance, row id) of some parts into `found_keys` and `found_rows`, in order;
    returns how many there are. NaN is left out.

    Args:
        distances, row_ids: int64[num_parts]: the address of float32 and of uint64 values of each part.
        lengths: int64[num_parts]: rows of each part.
        found_keys, found_rows: float32 and uint64[count].
    """
    values_of, ids_of, length = pointer_i64(distances), pointer_i64(row_ids), pointer_i64(lengths)
    keys, rows = pointer_f32(found_keys), pointer_u64(found_rows)
    size = 0
    for part in range(num_parts):
        values, ids = pointer_f32(values_of[part]), pointer_u64(ids_of[part])
        for start in range(0, length[part], _GROUP_ROWS):
            stop = min(start + _GROUP_ROWS, length[part])
            if size == count and not _has_any_within(values, start, stop, keys[0]):
                continue
            for i in range(start, stop):
                size = offer_row(keys, rows, size, count, values[i], ids[i])
    return put_in_order(keys, rows, size)


@inlined
def offer_least(kept, size, count, value):
    """Offers a value to the `count` least, the greatest of them first, of which there are `size`; returns how many
    there are then. NaN is not taken."""
    if size == count:
        if not value < kept[0]:
            return size
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


@kernel("int64(int64, int64, int64, int64)")
def least(distances, num_rows, count, heap):
    """Puts the `count` least of float32[num_rows] into `heap`, the greatest of them first; returns how many there are.

    NaN is left out.
    """
    values = pointer_f32(distances)
    kept = pointer_f32(heap)
    size = 0
    for i in range(num_rows):
        size = offer_least(kept, size, count, values[i])
    return size
