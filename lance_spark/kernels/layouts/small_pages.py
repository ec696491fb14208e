"""Pages of few values without nulls: measured, chosen and written with one call (`layouts.mini_block.small_pages`).

A table of thousands of columns has as many pages, so what a page costs beside its values is most of the work.

Addresses, lengths and counts are int64. Offsets of strings are checked here, other numbers come from this package.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, _clear, _pack_block, _width
from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u64,
)
from lance_spark.kernels.layouts.mini_block_write import _pad, _write_size
from lance_spark.kernels.rle import MAX_RUN, _changes, encode_runs
from lance_spark.kernels.words import write_word

MAX_VALUES = BLOCK_VALUES
"""Values of a small page; in every encoding they are one chunk."""

FLAT, PACKED, RUNS = 0, 1, 2

WORK_BYTES = 8 * MAX_VALUES + 8 * MAX_VALUES
"""Room that `write_small_page` needs: a block of words, and tables."""

_SLOTS = 2 * MAX_VALUES


@kernel("int64(int64, int64, int64, int64)")
def smallest_words(runs, word_bytes, packed_bytes, flat_bytes):
    """The encoding of words with the fewest bytes, for at most `runs` runs: FLAT, PACKED or RUNS."""
    if runs * (word_bytes + 1) < min(flat_bytes, packed_bytes):
        return RUNS
    return PACKED if packed_bytes < flat_bytes else FLAT


@inlined
def _may_repeat(source, num_values, num_bytes, slots):
    """Whether a dictionary of the distinct u64 values could be smaller than `num_bytes` bytes."""
    word = pointer_u64(source)
    slot = pointer_u16(slots)
    _clear(slots, 2 * _SLOTS)
    # Indices take at least a bit for each value.
    most = min(num_values // 2, (num_bytes - num_values // 8) // 8)
    distinct = 0
    for i in range(num_values):
        place = (word[i] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(53)
        while slot[place] != 0 and word[slot[place] - 1] != word[i]:
            place = (place + np.uint64(1)) & np.uint64(_SLOTS - 1)
        if slot[place] == 0:
            slot[place] = i + 1
            distinct += 1
            if distinct > most:
                return False
    return True


@inlined
def _write_chunk(kind, source, num_values, word_bytes, width, wide, work, target):
    """Writes the only chunk of a page without levels; returns its bytes."""
    pointer_u16(target)[0] = 0
    if kind == RUNS:
        table = work + 8 * MAX_VALUES
        pointer_i64(table)[0] = num_values
        pointer_i64(table)[1] = 0
        header = 2 + 2 * (4 if wide != 0 else 2)
        values = target + ((header + 7) & ~7)
        encode_runs(source, table, 1, word_bytes, table + 8, values, work, table + 16)
        runs = pointer_i64(table)[2]
        length = 2 + _write_size(target + 2, wide != 0, runs * word_bytes)
        length += _write_size(target + length, wide != 0, runs)
        length = _pad(target, _pad(target, length) + runs * word_bytes)
        copy_bytes(target + length, work, runs)
        return _pad(target, length + runs)
    size = num_values * word_bytes if kind == FLAT else word_bytes + width * BLOCK_BYTES_PER_BIT
    length = _pad(target, 2 + _write_size(target + 2, wide != 0, size))
    if kind == FLAT:
        copy_bytes(target + length, source, size)
    else:
        values = source
        if num_values < BLOCK_VALUES:
            values = work
            copy_bytes(work, source, num_values * word_bytes)
            _clear(work + num_values * word_bytes, (BLOCK_VALUES - num_values) * word_bytes)
        write_word(target + length, word_bytes, width)
        _pack_block(values, width, word_bytes * 8, target + length + word_bytes)
    return _pad(target, length + size)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def write_small_page(source, num_values, word_bytes, wide, min_repeating, work, target):
    """Writes the chunk of 1 to `MAX_VALUES` words in the encoding with the fewest bytes.

    Args:
        wide: whether sizes of value buffers have 32 bits (file version 2.2).
        min_repeating: -1 for indices of a dictionary; else the number of values from which on a dictionary may be
            used for this word size, 0 for none.
        work: `WORK_BYTES` bytes.
        target: room for the flat values, and 32 bytes.

    Returns:
        ``bytes << 2 | encoding``, or -1 if another layout could be better: in version 2.2 equal values are a constant
        page, and values that repeat can have a dictionary.
    """
    changes = _changes(source, num_values, word_bytes)
    if wide != 0 and min_repeating >= 0 and changes == 0:
        return -1
    runs = min(num_values, 1 + changes + num_values // MAX_RUN)
    width = _width(source, num_values, word_bytes * 8)
    flat_bytes = num_values * word_bytes
    packed_bytes = width * BLOCK_BYTES_PER_BIT + word_bytes
    kind = smallest_words(runs, word_bytes, packed_bytes, flat_bytes)
    if min_repeating > 0 and num_values >= min_repeating:
        num_bytes = min(flat_bytes, packed_bytes, runs * (word_bytes + 1))
        if _may_repeat(source, num_values, num_bytes, work):
            return -1
    return _write_chunk(kind, source, num_values, word_bytes, width, wide, work, target) << 2 | kind


@inlined
def _word(address, length, stop):
    """The first `length` bytes at `address`, 8 at most, as one word; nothing is read from `stop` on."""
    if address + 8 <= stop:
        shift = np.uint64(64 - 8 * min(length, 8))
        return (pointer_u64(address)[0] << shift) >> shift if length > 0 else np.uint64(0)
    word = np.uint64(0)
    for i in range(min(length, 8)):
        word |= np.uint64(pointer_u8(address)[i]) << np.uint64(8 * i)
    return word


@inlined
def _slot(address, length, stop):
    """The first slot of the search for a string."""
    state = np.uint64(length)
    for at in range(0, length, 8):
        state = (state ^ _word(address + at, length - at, stop)) * np.uint64(0x9E3779B97F4A7C15)
        state ^= state >> np.uint64(32)
    return (state * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(53)


@inlined
def _equal(left, left_stop, right, right_stop, length):
    for at in range(0, length, 8):
        if _word(left + at, length - at, left_stop) != _word(right + at, length - at, right_stop):
            return False
    return True


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def distinct_strings(offsets, data, limit, num_values, max_items, slots, indices, item_offsets, items):
    """The distinct values of 1 to `MAX_VALUES` strings, in the order in which they first occur.

    Args:
        offsets: int32[num_values + 1].
        limit: bytes of `data`.
        max_items: gives up after this many.
        slots: uint16[2 * MAX_VALUES].
        indices: int32[num_values], gets the item of each value.
        item_offsets: int32[max_items + 1], gets the offsets of the items, the first 0.
        items: gets the bytes of the items; room for those of all values, and 8 bytes.

    Returns:
        the number of items; -1 if there are more than `max_items`, -2 if the offsets fall or leave the data.
    """
    offset = pointer_i32(offsets)
    slot = pointer_u16(slots)
    index = pointer_i32(indices)
    ends = pointer_i32(item_offsets)
    if offset[0] < 0 or offset[num_values] > limit:
        return -2
    for i in range(num_values):
        if offset[i + 1] < offset[i]:
            return -2
    _clear(slots, 2 * _SLOTS)
    ends[0] = 0
    count = 0
    for i in range(num_values):
        start = data + np.int64(offset[i])
        length = np.int64(offset[i + 1]) - np.int64(offset[i])
        place = _slot(start, length, data + limit)
        while slot[place] != 0:
            item = np.int64(slot[place]) - 1
            first = np.int64(ends[item])
            if np.int64(ends[item + 1]) - first == length and _equal(
                items + first, items + first + length + 8, start, data + limit, length
            ):
                break
            place = (place + np.uint64(1)) & np.uint64(_SLOTS - 1)
        if slot[place] == 0:
            if count == max_items:
                return -1
            slot[place] = count + 1
            copy_bytes(items + np.int64(ends[count]), start, length)
            ends[count + 1] = np.int64(ends[count]) + length
            count += 1
        index[i] = np.int64(slot[place]) - 1
    return count
