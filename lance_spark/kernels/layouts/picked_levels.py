"""The levels of single rows of lists, out of packed chunks.

Each chunk is unpacked into memory that stays in the cache, and only the levels of the wanted rows are kept.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import unpack_chunk
from lance_spark.kernels.bits import num_ones
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8, pointer_u16
from lance_spark.kernels.layouts.levels import BLOCK, count_equal, count_up_to
from lance_spark.kernels.words import read_word

LEVEL_BITS = 16

MAX_CHUNK_LEVELS = 1 << 16
"""More levels than a chunk can count."""

SCRATCH_LEVELS = MAX_CHUNK_LEVELS + 1024
"""Levels that `pick_levels` needs room for, of each kind: a block of 1024 is unpacked completely."""

_NO_LEVEL = 0xFFFF

RUN_LEVELS = -3
"""In place of a width: levels in a block of runs."""


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
    """Copies both levels of slots from `start` to `stop` behind those that are picked; returns how many are then."""
    num_bytes = 2 * (stop - start)
    copy_bytes(reps + 2 * picked, scratch + 2 * start, num_bytes)
    if has_definition:
        copy_bytes(defs + 2 * picked, scratch + 2 * (SCRATCH_LEVELS + start), num_bytes)
    return picked + stop - start


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, "
    "int64, int64)"
)
def pick_levels(
    data, repetition, rep_width, definition, def_width, num_slots, first_values, num_chunks, max_rep, max_visible,
    chunks, ordinals, num_bounds, scratch, reps, defs, values,
):  # fmt: skip
    """Copies the levels of rows out of chunks that need not begin or end with a row, and counts values up to them.

    Args:
        data: the bytes of the chunks.
        repetition, definition: ``int64[2, num_chunks]``: start in `data` and size of the levels of each chunk, packed
            out of line to `rep_width` and `def_width` bits, or in runs: `RUN_LEVELS`; `definition` = 0: all slots have
            values.
        num_slots: ``int64[num_chunks]``.
        first_values: ``int64[num_chunks + 1]``: the values before each chunk, and before the end.
        chunks, ordinals: ``int64[num_bounds]``, as for `find_rows`: a start and an end of each range of rows.
        scratch: ``uint16[2, SCRATCH_LEVELS]``.
        reps, defs: uint16, get the levels of the rows; with room for those of all slots.
        values: ``int64[num_bounds]``, gets the number of values before each bound.

    Returns:
        The number of levels; negative if a chunk is too short, or a bound is not in its chunk.
    """
    slots_of = pointer_i64(num_slots)
    first_value = pointer_i64(first_values)
    chunk_of = pointer_i64(chunks)
    ordinal = pointer_i64(ordinals)
    rep_chunks = pointer_i64(repetition)
    def_chunks = pointer_i64(definition)
    out = pointer_i64(values)
    has_definition = definition != 0
    row = np.uint16(max_rep)
    bound = np.uint16(max_visible)
    picked = i = np.int64(0)
    for chunk in range(num_chunks):
        count = slots_of[chunk]
        if not unpack_levels(data + rep_chunks[chunk], rep_chunks[num_chunks + chunk], count, rep_width, scratch):
            return -1
        if has_definition and not unpack_levels(
            data + def_chunks[chunk], def_chunks[num_chunks + chunk], count, def_width, scratch + 2 * SCRATCH_LEVELS
        ):  # fmt: skip
            return -1
        block = begun = visible = opened = np.int64(0)
        while i < num_bounds and chunk_of[i] == chunk:
            slot, found, block, begun, visible = place_of_row(
                scratch, count, ordinal[i], has_definition, row, bound, block, begun, visible
            )  # fmt: skip
            out[i] = first_value[chunk] + found
            is_start = i % 2 == 0
            if slot < opened or out[i] > first_value[chunk + 1] or (is_start and slot == count):
                return -1
            if not is_start:
                picked = keep_levels(scratch, opened, slot, has_definition, reps, defs, picked)
            opened = slot
            i += 1
        if i % 2 == 1:
            picked = keep_levels(scratch, opened, count, has_definition, reps, defs, picked)
    return picked if i == num_bounds else np.int64(-1)
