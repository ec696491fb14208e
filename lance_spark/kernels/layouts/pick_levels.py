"""Levels of rows out of the chunks of mini-block pages.

Without lists the level of a value is read where it lies. Chunks with lists are unpacked into memory that stays in the
cache, one at a time, and the levels of rows are copied out of it.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import (
    BLOCK_BYTES_PER_BIT,
    BLOCK_VALUES,
    out_of_line_value,
    packed_value,
    unpack_block,
    unpack_chunk,
)
from lance_spark.kernels.bits import num_ones
from lance_spark.kernels.jit import copy_bytes, inlined, pointer_u8, pointer_u16
from lance_spark.kernels.layouts.levels import BLOCK, count_equal, count_up_to
from lance_spark.kernels.words import read_word, write_word

LEVEL_BITS = 16

NO_LEVELS = -1
"""Stands for a width: a page without levels of this kind."""

PACKED_LEVELS = -2
"""Stands for a width: one block of inline bit packing; more levels than that are out of line."""

RUN_LEVELS = -3
"""Stands for a width: levels in a block of runs."""

MAX_CHUNK_LEVELS = 1 << 16
"""More levels than a chunk can count."""

SCRATCH_LEVELS = MAX_CHUNK_LEVELS + 1024
"""Levels that a chunk needs room for, of each kind: a block of 1024 is unpacked completely."""

_NO_LEVEL = 0xFFFF


@inlined
def run_at(lengths, num_runs, place):
    """(the run with value `place`, the values before it); `num_runs` if there is none."""
    length = pointer_u8(lengths)
    run = np.int64(0)
    first = np.int64(0)
    while run + 16 <= num_runs:
        values = np.int64(0)
        for i in range(16):
            values += np.int64(length[run + i])
        if first + values > place:
            break
        first += values
        run += 16
    while run < num_runs:
        after = first + np.int64(length[run])
        if after > place:
            break
        first = after
        run += 1
    return run, first


@inlined
def copy_runs(source, num_bytes, lengths, num_runs, first, count, width, target):
    """Writes `count` values of runs from number `first` on; False if there are fewer."""
    if num_bytes < num_runs * width:
        return False
    length = pointer_u8(lengths)
    run, before = run_at(lengths, num_runs, first)
    done = np.int64(0)
    while done < count and run < num_runs:
        before += np.int64(length[run])
        value = read_word(source + run * width, width)
        while done < count and first + done < before:
            write_word(target + done * width, width, value)
            done += 1
        run += 1
    return done == count


@inlined
def _copy_run_levels(source, num_bytes, first, count, levels):
    """`copy_levels` of a block of runs (size of levels, levels, lengths)."""
    size = np.int64(read_word(source, 8)) if num_bytes >= 8 else np.int64(-1)
    num_runs = num_bytes - 8 - size
    if size < 0 or num_runs < 0 or num_runs * (LEVEL_BITS // 8) != size:
        return False
    return copy_runs(source + 8, size, source + 8 + size, num_runs, first, count, LEVEL_BITS // 8, levels)


@inlined
def _inline_bits(source, num_bytes, count):
    """The width of a block of inline bit packing with `count` levels; -1 if it is broken."""
    bits = np.int64(read_word(source, LEVEL_BITS // 8)) if num_bytes >= LEVEL_BITS // 8 else np.int64(-1)
    if bits > LEVEL_BITS or count > BLOCK_VALUES or num_bytes < LEVEL_BITS // 8 + bits * BLOCK_BYTES_PER_BIT:
        return np.int64(-1)
    return bits


@inlined
def copy_levels(source, num_bytes, held, first, count, width, levels):
    """Writes `count` of the `held` levels in `num_bytes` bytes at `source`, from number `first` on.

    False if the bytes are too short or broken.

    Args:
        width: bits of a level, out of line; `PACKED_LEVELS` or `RUN_LEVELS`.
    """
    if width == RUN_LEVELS:
        return _copy_run_levels(source, num_bytes, first, count, levels)
    out = pointer_u16(levels)
    if width == PACKED_LEVELS:
        bits = _inline_bits(source, num_bytes, held)
        if bits < 0:
            return False
        packed = source + LEVEL_BITS // 8
        for k in range(count):
            level = np.uint64(0)
            if bits > 0:
                level = packed_value(packed, first + k, bits, LEVEL_BITS, BLOCK_VALUES // LEVEL_BITS)
            out[k] = np.uint16(level)
        return True
    for k in range(count):
        level, is_valid = out_of_line_value(source, num_bytes, held, first + k, LEVEL_BITS, width)
        if not is_valid:
            return False
        out[k] = np.uint16(level)
    return True


@inlined
def _bits_equal(levels, level):
    bits = np.uint64(0)
    for k in range(BLOCK):
        bits |= np.uint64(levels[k] == level) << np.uint64(k)
    return bits


@inlined
def _bits_up_to(levels, bound):
    bits = np.uint64(0)
    for k in range(BLOCK):
        bits |= np.uint64(levels[k] <= bound) << np.uint64(k)
    return bits


@inlined
def _unpack_runs(source, size, count, scratch):
    """Writes the levels of a block of runs (size of levels, levels, lengths); False if they are not `count`."""
    num_bytes = np.int64(read_word(source, 8)) if size >= 8 else np.int64(-1)
    num_runs = size - 8 - num_bytes
    if num_bytes < 0 or num_runs < 0 or 2 * num_runs != num_bytes:
        return False
    level = pointer_u16(source + 8)
    length = pointer_u8(source + 8 + num_bytes)
    out = pointer_u16(scratch)
    done = np.int64(0)
    for run in range(num_runs):
        if length[run] > count - done:
            return False
        for k in range(np.int64(length[run])):
            out[done + k] = level[run]
        done += np.int64(length[run])
    return done == count


@inlined
def unpack_levels(source, size, count, width, scratch):
    """Unpacks the levels of a chunk, and ends them by a block of levels that none has; False if it is too short."""
    if count < 0 or count >= MAX_CHUNK_LEVELS:
        return False
    if width == RUN_LEVELS:
        if not _unpack_runs(source, size, count, scratch):
            return False
    elif width == PACKED_LEVELS:
        bits = _inline_bits(source, size, count)
        if bits < 0:
            return False
        unpack_block(source + LEVEL_BITS // 8, bits, LEVEL_BITS, scratch)
    elif not unpack_chunk(source, size, count, LEVEL_BITS, width, scratch):
        return False
    after = pointer_u16(scratch + 2 * count)
    for k in range(BLOCK):
        after[k] = _NO_LEVEL
    return True


@inlined
def place_of_row(scratch, count, ordinal, has_definition, row, bound, block, begun, visible):
    """Finds the row before which `ordinal` rows begin in a chunk, whose levels are unpacked into `scratch`.

    Args:
        count: slots of the chunk.
        row, bound: the repetition level of a row's first slot, and the largest definition level of a value.
        block, begun, visible: a slot, and the rows and values before it, from which on the row is searched.

    Returns:
        (slot, values before it, and block, begun and visible for a later row). The slot is `count` if no row begins
        there, which is the end of the one before, and -1 if fewer rows begin in the chunk.
    """
    while block + BLOCK < count:
        seen = count_equal(pointer_u16(scratch + 2 * block), row)
        if begun + seen > ordinal:
            break
        begun += seen
        if has_definition:
            visible += count_up_to(pointer_u16(scratch + 2 * (SCRATCH_LEVELS + block)), bound)
        block += BLOCK
    starts = _bits_equal(pointer_u16(scratch + 2 * block), row)
    before = ordinal - begun
    if before < 0 or before > num_ones(starts):
        return np.int64(-1), np.int64(0), block, begun, visible
    for _ in range(before):
        starts &= starts - np.uint64(1)
    # The row begins at the lowest bit left; without one the range ends with the chunk.
    below = (starts & (~starts + np.uint64(1))) - np.uint64(1)
    slot = block + num_ones(below) if starts != 0 else count
    found = slot
    if has_definition:
        levels = pointer_u16(scratch + 2 * (SCRATCH_LEVELS + block))
        found = visible + num_ones(_bits_up_to(levels, bound) & below)
    return slot, found, block, begun, visible


@inlined
def keep_levels(scratch, start, stop, has_definition, reps, defs, picked):
    """Copies both levels of slots from `start` to `stop` behind those that are picked."""
    num_bytes = 2 * (stop - start)
    copy_bytes(reps + 2 * picked, scratch + 2 * start, num_bytes)
    if has_definition:
        copy_bytes(defs + 2 * picked, scratch + 2 * (SCRATCH_LEVELS + start), num_bytes)
