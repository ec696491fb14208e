"""Normalizes values of Arrow arrays: removes offsets of slices, clears values masked by nulls.

Addresses, offsets, lengths and counts are int64; bitmaps are LSB first.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u32,
    pointer_u64,
)


@kernel("void(int64, int64, int64, int64)")
def copy_bits(bitmap, bit_offset, num_bits, target):
    """Copies `num_bits` bits from bit `bit_offset` to the start of `target`; trailing bits are 0."""
    source = pointer_u8(bitmap + (bit_offset >> 3))
    out = pointer_u8(target)
    shift = np.uint8(bit_offset & 7)
    num_bytes = (num_bits + 7) >> 3
    last_source = ((bit_offset & 7) + num_bits + 7) >> 3
    if shift == 0:
        copy_bytes(target, bitmap + (bit_offset >> 3), num_bytes)
    else:
        for i in range(np.uint64(num_bytes)):
            word = np.uint32(source[i])
            if np.int64(i) + 1 < last_source:
                word |= np.uint32(source[i + np.uint64(1)]) << np.uint32(8)
            out[i] = np.uint8((word >> np.uint32(shift)) & np.uint32(0xFF))
    if num_bits & 7:
        out[num_bytes - 1] &= np.uint8((1 << (num_bits & 7)) - 1)


@kernel("void(int64, int64, int64)")
def and_bits(bitmap, num_bytes, target):
    """target &= bitmap, byte by byte."""
    source = pointer_u8(bitmap)
    out = pointer_u8(target)
    for i in range(np.uint64(num_bytes)):
        out[i] &= source[i]


@inlined
def _is_valid(validity, slot):
    return np.uint64((pointer_u8(validity)[slot >> np.uint64(3)] >> np.uint8(slot & np.uint64(7))) & 1)


@inlined
def _keep(word, slot):
    """All ones if bit `slot` of `word` is set, else 0."""
    return np.uint64(0) - ((word >> slot) & np.uint64(1))


@kernel("void(int64, int64, int64, int64, int64, int64)")
def copy_valid(source, validity, num_values, value_bytes, eight, target):
    """Copies values of `value_bytes` bytes; null ones become zeros. `eight` is 8.

    Loops of constant length would be unrolled, which prevents vectorization.
    """
    bits = pointer_u8(validity)
    done = 0
    if value_bytes == 1 or value_bytes == 2 or value_bytes == 4 or value_bytes == 8:
        done = num_values & ~7
        for i in range(np.uint64(num_values >> 3)):
            word = np.uint64(bits[i])
            if value_bytes == 8:
                for k in range(np.uint64(eight)):
                    pointer_u64(target)[k] = pointer_u64(source)[k] & _keep(word, k)
            elif value_bytes == 4:
                for k in range(np.uint64(eight)):
                    pointer_u32(target)[k] = pointer_u32(source)[k] & np.uint32(_keep(word, k))
            elif value_bytes == 2:
                for k in range(np.uint64(eight)):
                    pointer_u16(target)[k] = pointer_u16(source)[k] & np.uint16(_keep(word, k))
            else:
                for k in range(np.uint64(eight)):
                    pointer_u8(target)[k] = pointer_u8(source)[k] & np.uint8(_keep(word, k))
            source += 8 * value_bytes
            target += 8 * value_bytes
    for i in range(done, num_values):
        if (bits[i >> 3] >> (i & 7)) & 1:
            copy_bytes(target, source, value_bytes)
        else:
            for j in range(np.uint64(value_bytes)):
                pointer_u8(target)[j] = 0
        source += value_bytes
        target += value_bytes


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def rebase_offsets(offsets, wide, num_values, limit, validity, bit_offset, target):
    """Writes num_values + 1 offsets that start at 0; returns the bytes masked by nulls (`validity` = 0: no nulls).

    Returns -1 if the offsets decrease or exceed `limit` bytes.
    """
    hidden = 0
    falls = False
    if wide:
        before = pointer_i64(offsets)
        out = pointer_i64(target)
        base = before[0]
        if base < 0 or before[num_values] > limit:
            return -1
        out[0] = 0
        for i in range(np.uint64(num_values)):
            following = before[i + np.uint64(1)]
            falls |= following < before[i]
            out[i + np.uint64(1)] = following - base
    else:
        before_32 = pointer_i32(offsets)
        out_32 = pointer_i32(target)
        base_32 = before_32[0]
        if base_32 < 0 or before_32[num_values] > limit:
            return -1
        out_32[0] = 0
        for i in range(np.uint64(num_values)):
            following_32 = before_32[i + np.uint64(1)]
            falls |= following_32 < before_32[i]
            out_32[i + np.uint64(1)] = following_32 - base_32
    if falls:
        return -1
    if validity != 0:
        for i in range(np.uint64(num_values)):
            if _is_valid(validity, np.uint64(bit_offset) + i) == 0:
                if wide:
                    hidden += pointer_i64(offsets)[i + np.uint64(1)] - pointer_i64(offsets)[i]
                else:
                    hidden += np.int64(pointer_i32(offsets)[i + np.uint64(1)]) - np.int64(pointer_i32(offsets)[i])
    return hidden
