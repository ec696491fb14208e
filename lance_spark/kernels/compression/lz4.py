"""Decompresses many raw LZ4 blocks in one call.

A block is a list of sequences: a token (4 bits literal length, 4 bits match length - 4; 15 means that further bytes
are added to it), the literals, a u16 with the distance back to the match. The last sequence ends after its literals.
(LZ4 block format description, version 1.6.3.)

Worked example: ``31 61 62 63 03 00 00 -> "abc" + 5 bytes from 3 back -> "abcabcab"``.

Addresses, lengths and counts are int64. A negative result is ``~i``, where block i is corrupt or has a wrong size.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8, pointer_u16, pointer_u64

MAX_RATIO = 255
"""Maximum compression ratio of an LZ4 block."""


@inlined
def _copy_match(at, distance, length, room):
    """Copies `length` bytes from `distance` back; source and target may overlap."""
    source = at - distance
    if distance >= 8 and room >= length + 8:
        stop = at + length
        while at < stop:
            pointer_u64(at)[0] = pointer_u64(source)[0]
            at += 8
            source += 8
        return
    # The bytes from `source` repeat, so each copy doubles the size of the next one.
    while length > 0:
        part = min(at - source, length)
        copy_bytes(at, source, part)
        at += part
        length -= part


@inlined
def _decompress_block(source, size, target, target_size):
    """Returns the bytes written, -1 if the block is corrupt."""
    at = target
    stop = source + size
    target_stop = target + target_size
    while source < stop:
        token = np.int64(pointer_u8(source)[0])
        source += 1
        literals = token >> 4
        if literals == 15:
            more = np.int64(255)
            while more == 255:
                if source >= stop:
                    return np.int64(-1)
                more = np.int64(pointer_u8(source)[0])
                literals += more
                source += 1
        if literals > stop - source or literals > target_stop - at:
            return np.int64(-1)
        if literals <= 16 and stop - source >= 16 and target_stop - at >= 16:
            pointer_u64(at)[0] = pointer_u64(source)[0]
            pointer_u64(at)[1] = pointer_u64(source)[1]
        else:
            copy_bytes(at, source, literals)
        source += literals
        at += literals
        if source == stop:
            return at - target
        if stop - source < 2:
            return np.int64(-1)
        distance = np.int64(pointer_u16(source)[0])
        source += 2
        length = token & 15
        if length == 15:
            more = np.int64(255)
            while more == 255:
                if source >= stop:
                    return np.int64(-1)
                more = np.int64(pointer_u8(source)[0])
                length += more
                source += 1
        length += 4
        if distance == 0 or distance > at - target or length > target_stop - at:
            return np.int64(-1)
        _copy_match(at, distance, length, target_stop - at)
        at += length
    # A block ends with literals, so the end of the input here means corruption too.
    return np.int64(-1)


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def decompress_blocks(data, starts, sizes, target_sizes, num_blocks, target):
    """Decompresses blocks back to back; block i must have exactly `target_sizes[i]` bytes, 0 if it is empty."""
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    target_size = pointer_i64(target_sizes)
    for i in range(np.uint64(num_blocks)):
        if size[i] == 0 and target_size[i] == 0:
            continue
        if _decompress_block(data + start[i], size[i], target, target_size[i]) != target_size[i]:
            return ~np.int64(i)
        target += target_size[i]
    return 0
