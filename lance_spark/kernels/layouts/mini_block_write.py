"""Splits the levels of a mini-block page into chunks, and writes the chunks (`lance.encodings21.MiniBlockLayout`).

Addresses, lengths and counts are int64; all numbers come from this package's own encoders.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8, pointer_u16, pointer_u32


@kernel("int64(int64, int64, int64, int64)")
def fewest_values(defs, num_items, max_visible, block):
    """Values in the sparsest complete block of `block` levels; `block` if there is none."""
    level = pointer_u16(defs)
    fewest = np.int64(block)
    for start in range(0, num_items - block + 1, block):
        count = np.uint16(0)
        for i in range(np.uint64(start), np.uint64(start + block)):
            count += np.uint16(level[i] <= max_visible)
        fewest = min(fewest, np.int64(count))
    return fewest


@kernel("int64(int64, int64, int64, int64)")
def longest_window(defs, num_items, max_visible, window):
    """Levels of the longest of the windows that end with every `window`-th value; the rest is a window too."""
    level = pointer_u16(defs)
    values = 0
    levels = 0
    longest = 0
    for i in range(np.uint64(num_items)):
        levels += 1
        values += level[i] <= max_visible
        if values == window:
            longest = max(longest, levels)
            values = 0
            levels = 0
    return max(longest, levels)


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def chunk_levels(defs, num_items, max_visible, num_values, num_chunks, num_levels):
    """The number of levels of each chunk of `num_values[i]` values: up to its last value; the last chunk has the rest.

    Returns the largest number, or -1 if there are fewer values than in the chunks.
    """
    level = pointer_u16(defs)
    values = pointer_i64(num_values)
    levels = pointer_i64(num_levels)
    at = 0
    largest = 0
    for i in range(num_chunks):
        left = values[i]
        start = at
        while left > 0 and at < num_items:
            left -= level[at] <= max_visible
            at += 1
        if left > 0:
            return -1
        if i == num_chunks - 1:
            at = num_items
        levels[i] = at - start
        largest = max(largest, at - start)
    return largest


@kernel("void(int64, int64, int64, int64, int64)")
def repetition_index(reps, num_levels, num_chunks, max_rep, target):
    """Writes int64[num_chunks, 2]: rows that end in each chunk, and levels of its unfinished last row.

    Levels are counted from the last row start of the chunk, or from its beginning if no row starts in it; 0 if a row
    ends with the chunk.
    """
    rep = pointer_u16(reps)
    count = pointer_i64(num_levels)
    out = pointer_i64(target)
    at = 0
    was_open = False
    for i in range(num_chunks):
        stop = at + count[i]
        starts = 0
        last = at
        for j in range(at, stop):
            if rep[j] == max_rep:
                starts += 1
                last = j
        is_open = i < num_chunks - 1 and rep[stop] != max_rep
        # An unfinished row can only end here before the first start of this chunk.
        ended = starts + was_open - is_open
        out[2 * i] = ended
        out[2 * i + 1] = stop - last if is_open else 0
        was_open = is_open
        at = stop


@inlined
def _pad(target, length):
    """Pads to a multiple of 8 bytes and returns the padded length."""
    while length & 7:
        pointer_u8(target)[length] = 0xFE
        length += 1
    return length


MAX_HEADER_BYTES = 16
"""Bytes of a chunk beside its buffers, with padding, and without `MAX_BUFFER_BYTES` for each of them."""

MAX_BUFFER_BYTES = 11
"""Bytes that a buffer takes in a chunk beside its content: its size, and padding."""


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def write_chunks(num_levels, num_level_buffers, sources, num_buffers, num_values, num_chunks, wide, words, target):
    """Writes the chunks of a page back to back: header, levels and value buffers, each padded to 8 bytes.

    Args:
        num_levels: int64[num_chunks], or 0 if the page has no levels.
        num_level_buffers: the number of level buffers; their sizes are u16, the others' u32 if `wide`.
        sources: int64[num_buffers, 3]: address of the buffer, of the starts and of the sizes of its slices.
        num_values: int64[num_chunks], powers of two but for the last.
        words: uint32[num_chunks] if `wide`, else uint16[num_chunks]; gets the word of each chunk,
            ``((bytes / 8 - 1) << 4) | log2(values)``, for the last one without the logarithm.
        target: room for the slices of all buffers, `MAX_BUFFER_BYTES` for each slice and `MAX_HEADER_BYTES` for each
            chunk.

    Returns:
        The bytes written; -1 if a chunk exceeds the limit of the file version: 2 GiB if `wide`, else 32 KiB.
    """
    source = pointer_i64(sources)
    levels = pointer_i64(num_levels)
    values = pointer_i64(num_values)
    most = 1 << 31 if wide != 0 else 1 << 15
    begin = target
    for i in range(num_chunks):
        pointer_u16(target)[0] = levels[i] if num_levels != 0 else 0
        length = 2
        for b in range(num_buffers):
            size = pointer_i64(source[3 * b + 2])[i]
            if wide != 0 and b >= num_level_buffers:
                pointer_u32(target + length)[0] = size
                length += 4
            else:
                pointer_u16(target + length)[0] = size
                length += 2
        length = _pad(target, length)
        for b in range(num_buffers):
            size = pointer_i64(source[3 * b + 2])[i]
            copy_bytes(target + length, source[3 * b] + pointer_i64(source[3 * b + 1])[i], size)
            length = _pad(target, length + size)
        if length > most:
            return -1
        word = ((length >> 3) - 1) << 4
        if i < num_chunks - 1:
            while values[i] >> ((word & 15) + 1) != 0:
                word += 1
        if wide != 0:
            pointer_u32(words)[i] = word
        else:
            pointer_u16(words)[i] = word
        target += length
    return target - begin
