"""Little-endian words of 1, 2, 4 or 8 bytes at raw addresses; without bounds checks."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, pointer_i64, pointer_u8, pointer_u16, pointer_u32, pointer_u64


@inlined
def read_word(address, word_bytes):
    """The word as u64."""
    if word_bytes == 1:
        return np.uint64(pointer_u8(address)[0])
    if word_bytes == 2:
        return np.uint64(pointer_u16(address)[0])
    if word_bytes == 4:
        return np.uint64(pointer_u32(address)[0])
    return pointer_u64(address)[0]


@inlined
def write_word(address, word_bytes, word):
    """Writes the low bytes of `word`."""
    if word_bytes == 1:
        pointer_u8(address)[0] = word
    elif word_bytes == 2:
        pointer_u16(address)[0] = word
    elif word_bytes == 4:
        pointer_u32(address)[0] = word
    else:
        pointer_u64(address)[0] = word


@inlined
def copy_chunk(target, source, length):
    """Copies bytes that do not overlap, mostly some KiB.

    For that size C's memcpy may choose ``rep movsb``, which takes up to half as long again for unaligned targets.
    """
    num_words = np.uint64(length >> 3)
    words = pointer_u64(source)
    out = pointer_u64(target)
    for i in range(num_words):
        out[i] = words[i]
    for offset in range(length & ~7, length):
        pointer_u8(target)[offset] = pointer_u8(source)[offset]


@inlined
def offset_at(offsets, offset_bytes, index):
    """Offset `index` of a run of offsets of 4 or 8 bytes, as int64."""
    if offset_bytes == 4:
        return np.int64(pointer_u32(offsets)[index])
    return pointer_i64(offsets)[index]


@inlined
def write_offset(offsets, offset_bytes, index, value):
    """Sets offset `index`."""
    if offset_bytes == 4:
        pointer_u32(offsets)[index] = np.uint32(value)
    else:
        pointer_i64(offsets)[index] = value
