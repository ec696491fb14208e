"""The order of byte strings that lie next to each other in memory, with their offsets as Arrow has them."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_u8
from lance_spark.kernels.words import offset_at, read_word


@inlined
def _is_after(one, one_bytes, other, other_bytes):
    """Whether a byte string is greater than another one."""
    common = min(one_bytes, other_bytes)
    at = np.int64(0)
    while at + 8 <= common and read_word(one + at, 8) == read_word(other + at, 8):
        at += 8
    while at < common:
        left, right = pointer_u8(one)[at], pointer_u8(other)[at]
        if left != right:
            return left > right
        at += 1
    return one_bytes > other_bytes


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def texts_ascend(lower_offsets, lower, lower_size, upper_offsets, upper, upper_size, count, offset_bytes):
    """Compares byte strings with their counterparts.

    Args:
        lower_offsets, upper_offsets: count + 1 offsets of 4 or 8 bytes each.
        lower, lower_size, upper, upper_size: the bytes that the offsets count in.

    Returns:
        1 if no string of `lower` is greater than its counterpart, 0 if one is, -1 if an offset is outside of the bytes.
    """
    for i in range(count):
        start, stop = offset_at(lower_offsets, offset_bytes, i), offset_at(lower_offsets, offset_bytes, i + 1)
        begin, end = offset_at(upper_offsets, offset_bytes, i), offset_at(upper_offsets, offset_bytes, i + 1)
        if start < 0 or stop < start or stop > lower_size or begin < 0 or end < begin or end > upper_size:
            return np.int64(-1)
        if _is_after(lower + start, stop - start, upper + begin, end - begin):
            return np.int64(0)
    return np.int64(1)
