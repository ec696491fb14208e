"""Copies many slices of a buffer: back to back, from rows of equal size, and into such rows.

Addresses, lengths and counts are int64 and checked by the caller (`Chunks` checks its slices at construction).
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u32,
    pointer_u64,
)


@kernel("void(int64, int64, int64, int64, int64)")
def concatenate(data, starts, lengths, num_slices, target):
    """Copies `lengths[i]` bytes from `data + starts[i]` for every i, back to back."""
    start = pointer_i64(starts)
    length = pointer_i64(lengths)
    for i in range(np.uint64(num_slices)):
        copy_bytes(target, data + start[i], length[i])
        target += length[i]


@kernel("void(int64, int64, int64, int64, int64, int64)")
def scatter_slices(data, starts, lengths, num_slices, places, target):
    """Copies `lengths[i]` bytes from `data + starts[i]` to `target + places[i]` for every i."""
    start = pointer_i64(starts)
    length = pointer_i64(lengths)
    place = pointer_i64(places)
    for i in range(np.uint64(num_slices)):
        copy_bytes(target + place[i], data + start[i], length[i])


@inlined
def _copy_strided(source, source_stride, target, target_stride, length, num_rows):
    # For one-word rows a memcpy call per row costs more than the copy, so words have separate loops.
    if length == 1:
        for _ in range(num_rows):
            pointer_u8(target)[0] = pointer_u8(source)[0]
            source += source_stride
            target += target_stride
    elif length == 2:
        for _ in range(num_rows):
            pointer_u16(target)[0] = pointer_u16(source)[0]
            source += source_stride
            target += target_stride
    elif length == 4:
        for _ in range(num_rows):
            pointer_u32(target)[0] = pointer_u32(source)[0]
            source += source_stride
            target += target_stride
    elif length == 8:
        for _ in range(num_rows):
            pointer_u64(target)[0] = pointer_u64(source)[0]
            source += source_stride
            target += target_stride
    else:
        for _ in range(num_rows):
            copy_bytes(target, source, length)
            source += source_stride
            target += target_stride


@kernel("void(int64, int64, int64, int64, int64)")
def gather_rows(source, stride, length, num_rows, target):
    """Copies the first `length` bytes of each row of `stride` bytes, back to back."""
    _copy_strided(source, stride, target, length, length, num_rows)


@kernel("void(int64, int64, int64, int64, int64)")
def scatter_rows(source, stride, length, num_rows, target):
    """Copies values of `length` bytes, back to back in `source`, to the start of each row of `stride` bytes."""
    _copy_strided(source, length, target, stride, length, num_rows)
