"""Fast conservative tests that all values are in the range of their type; null slots are tested too.

They may have false negatives (a bound itself, garbage in a null slot), but never false positives, so that a slower
exact test is needed only after a negative result.

Addresses and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_i64, pointer_u32, pointer_u64


@kernel("int64(int64, int64, int64, int64)")
def decimals_within(data, num_values, num_words, bound):
    """1 if the magnitude of every value is less than `bound` (at most `bound` for negative values), else 0.

    Args:
        data: signed integers of `num_words` u64 words each, the lowest first.
        num_words: 2 or 4.
        bound: u64[num_words], a positive integer.
    """
    words = pointer_u64(data)
    signed = pointer_i64(data)
    limit = pointer_u64(bound)
    outside = np.uint8(0)
    if num_words == 2:
        low_limit, high_limit = limit[0], limit[1]
        for i in range(np.uint64(num_values)):
            place = i << np.uint64(1)
            flip = np.uint64(signed[place + np.uint64(1)] >> 63)
            low = words[place] ^ flip
            high = words[place + np.uint64(1)] ^ flip
            equal = np.uint8(high == high_limit)
            outside |= np.uint8(high > high_limit) | (equal & np.uint8(low >= low_limit))
        return np.int64(outside == 0)
    stride = np.uint64(num_words)
    for i in range(np.uint64(num_values)):
        place = i * stride
        # The inverted bits of a negative value are its magnitude minus 1.
        flip = np.uint64(signed[place + stride - np.uint64(1)] >> 63)
        less = np.uint8(0)
        for k in range(stride):
            word = words[place + k] ^ flip
            less = np.uint8(word < limit[k]) | (np.uint8(word == limit[k]) & less)
        outside |= less ^ np.uint8(1)
    return np.int64(outside == 0)


@kernel("int64(int64, int64, int64, uint64)")
def integers_below(data, num_values, word_bytes, limit):
    """1 if every integer of 4 or 8 bytes is at least 0 and below `limit`, else 0."""
    outside = np.uint8(0)
    if word_bytes == 4:
        narrow = pointer_u32(data)
        narrow_limit = np.uint32(limit)
        for i in range(np.uint64(num_values)):
            outside |= np.uint8(narrow[i] >= narrow_limit)
    else:
        wide = pointer_u64(data)
        for i in range(np.uint64(num_values)):
            outside |= np.uint8(wide[i] >= limit)
    return np.int64(outside == 0)
