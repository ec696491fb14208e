"""Converts repetition and definition levels to Arrow offsets and validity bitmaps (see `lance_spark.layouts.repdef`).

Levels are ``uint16``, one per slot. Addresses and counts are ``int64``. A negative result means that the levels
violate the format; the outputs are then undefined, but nothing outside of them was written.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bits import num_ones
from lance_spark.kernels.jit import (
    inlined,
    kernel,
    levels_up_to,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u64,
)

BLOCK = 64
"""Slots that are compared at once."""


@inlined
def _up_to(levels, count, bound):
    """Bit k is set if level k of `count`, at most 64, is at most `bound`."""
    if count == BLOCK:
        return levels_up_to(levels, bound)
    bits = np.uint64(0)
    for k in range(np.uint64(count)):
        bits |= np.uint64(np.int64(pointer_u16(levels)[k]) <= bound) << k
    return bits


@inlined
def _every(count):
    """The lowest `count` bits, 1 to 64."""
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(BLOCK - count)


@kernel("int64(int64, int64, int64, int64, int64)")
def validity_bitmap(levels, num_items, limit, max_level, bitmap):
    """Sets bit i of `bitmap` (LSB first, ceil(num_items / 8) bytes) to ``levels[i] <= limit``.

    Returns 0, or -1 if a level is above `max_level`. Both bounds are below 65536.
    """
    too_large = np.uint64(0)
    for first in range(0, num_items, BLOCK):
        count = min(np.int64(BLOCK), num_items - first)
        place = levels + 2 * first
        bits = _up_to(place, count, limit)
        too_large |= ~_up_to(place, count, max_level) & _every(count)
        if count == BLOCK:
            pointer_u64(bitmap + (first >> 3))[0] = bits
        else:
            for k in range((count + 7) >> 3):
                pointer_u8(bitmap + (first >> 3))[k] = (bits >> np.uint64(8 * k)) & np.uint64(0xFF)
    return -1 if too_large else 0


@kernel("int64(int64, int64, int64, int64)")
def visible_levels(definition, num_items, max_visible, output):
    """Copies the definition levels that are at most `max_visible` to `output`; returns their number.

    `output` has room for `num_items`.
    """
    levels = pointer_u16(definition)
    out = pointer_u16(output)
    count = np.int64(0)
    for i in range(num_items):
        level = levels[i]
        out[count] = level
        count += np.int64(np.int64(level) <= max_visible)
    return count


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def list_starts(repetition, definition, num_items, max_rep, max_def, max_visible, offsets, definitions, repetitions):
    """Writes int32 offsets of lists, which begin where the repetition level is above 0.

    Only slots up to `max_visible` have a value. A placeholder also begins a list, an empty one.

    Args:
        definition: 0: no definition levels, and every slot has a value.
        max_rep, max_def: the largest levels.
        offsets: room for one more than there are lists.
        definitions: uint16, gets the definition level of each list, unless 0.
        repetitions: uint16, gets the repetition level of each list less 1, unless 0.

    Returns:
        The number of values; -1 if a level is too large, the first slot begins no list, or one within a list has no
        value.
    """
    out = pointer_i32(offsets)
    num_lists = np.uint64(0)
    num_values = np.int64(0)
    wrong = np.uint64(num_items > 0 and pointer_u16(repetition)[0] == 0)
    for first in range(0, num_items, BLOCK):
        count = min(np.int64(BLOCK), num_items - first)
        reps = repetition + 2 * first
        defs = definition + 2 * first
        every = _every(count)
        begins = ~_up_to(reps, count, np.int64(0)) & every
        wrong |= ~_up_to(reps, count, max_rep) & every
        visible = every
        if definition != 0:
            visible = _up_to(defs, count, max_visible)
            wrong |= ((~_up_to(defs, count, max_def)) | ~(visible | begins)) & every
        while begins != 0:
            before = (begins & (~begins + np.uint64(1))) - np.uint64(1)
            out[num_lists] = np.int32(num_values + num_ones(visible & before))
            if definitions != 0:
                pointer_u16(definitions)[num_lists] = pointer_u16(defs)[num_ones(before)]
            if repetitions != 0:
                pointer_u16(repetitions)[num_lists] = pointer_u16(reps)[num_ones(before)] - 1
            num_lists += np.uint64(1)
            begins &= begins - np.uint64(1)
        num_values += num_ones(visible)
    out[num_lists] = np.int32(num_values)
    return np.int64(-1) if wrong else num_values


@kernel("int64(int64, int64, int64, int64)")
def visible_offsets(offsets, definition, num_lists, max_visible):
    """Drops, in place, the int32 offsets of lists above `max_visible`, which are empty; returns the new number."""
    out = pointer_i32(offsets)
    definitions = pointer_u16(definition)
    bound = np.uint64(max_visible)
    kept = np.uint64(0)
    for i in range(np.uint64(num_lists)):
        out[kept] = out[i]
        kept += np.uint64(np.uint64(definitions[i]) <= bound)
    out[kept] = out[np.uint64(num_lists)]
    return np.int64(kept)


@kernel("void(int64, int64, int64, int64, int64)")
def list_validity(definition, num_lists, inner_visible, empty_level, bitmap):
    """Sets bit i of `bitmap` if list i has items (level up to `inner_visible`) or is empty, not null."""
    levels = pointer_u16(definition)
    out = pointer_u8(bitmap)
    for start in range(0, num_lists, 8):
        byte = np.int64(0)
        for k in range(min(np.int64(8), num_lists - start)):
            level = np.int64(levels[start + k])
            byte |= np.int64(level <= inner_visible or level == empty_level) << k
        out[start >> 3] = byte


@kernel("int64(int64, int64, int64)")
def count_visible(definition, num_items, max_visible):
    """The number of levels that are at most `max_visible`."""
    levels = pointer_u16(definition)
    bound = np.uint16(max_visible)
    total = np.int64(0)
    done = np.uint64(0)
    count = np.uint64(num_items)
    while done < count:
        # 16-bit counts, so that many are added at a time.
        stop = min(done + np.uint64(32768), count)
        seen = np.uint16(0)
        for i in range(done, stop):
            seen += np.uint16(levels[i] <= bound)
        total += np.int64(seen)
        done = stop
    return total


@inlined
def count_equal(levels, level):
    """Number of levels in a block that equal `level`."""
    count = np.uint16(0)
    for k in range(BLOCK):
        count += np.uint16(levels[k] == level)
    return np.int64(count)


@inlined
def count_up_to(levels, bound):
    """Number of levels in a block that are at most `bound`."""
    count = np.uint16(0)
    for k in range(BLOCK):
        count += np.uint16(levels[k] <= bound)
    return np.int64(count)


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)",
)
def find_rows(
    repetition, definition, max_rep, max_visible, first_slots, first_values, chunks, ordinals, num_bounds, slots, values
):
    """Locates starts and ends of rows in chunks of slots that need not begin or end with a row.

    Args:
        repetition, definition: the levels of all chunks; `definition` = 0: all slots have values.
        first_slots, first_values: int64[chunks + 1]: the slots and values before each chunk, and before the end.
        chunks, ordinals: int64[num_bounds]: the chunk of each bound, and the rows that begin in the chunk before it.
            The bounds ascend, first a start, then an end, and so on. A start is where a row begins; an end is there, or
            at the end of the chunk.
        slots, values: int64[num_bounds], get the number of slots and of values before each bound.

    Returns:
        0, or ``~i`` for the first bound that is not in its chunk.
    """
    first_slot = pointer_i64(first_slots)
    first_value = pointer_i64(first_values)
    chunk_of = pointer_i64(chunks)
    ordinal = pointer_i64(ordinals)
    out_slots = pointer_i64(slots)
    out_values = pointer_i64(values)
    row = np.uint16(max_rep)
    bound = np.uint16(max_visible)
    chunk = np.int64(-1)
    slot = stop = begun = visible = num_values = np.int64(0)
    all_visible = True
    for i in range(num_bounds):
        if chunk_of[i] != chunk:
            chunk = chunk_of[i]
            slot, stop = first_slot[chunk], first_slot[chunk + 1]
            num_values = first_value[chunk + 1] - first_value[chunk]
            all_visible = definition == 0 or stop - slot == num_values
            begun = visible = np.int64(0)
        while slot + BLOCK <= stop:
            seen = count_equal(pointer_u16(repetition + 2 * slot), row)
            if begun + seen > ordinal[i]:
                break
            begun += seen
            visible += np.int64(BLOCK) if all_visible else count_up_to(pointer_u16(definition + 2 * slot), bound)
            slot += BLOCK
        while slot < stop:
            if pointer_u16(repetition + 2 * slot)[0] == row:
                if begun == ordinal[i]:
                    break
                begun += 1
            visible += np.int64(all_visible or pointer_u16(definition + 2 * slot)[0] <= bound)
            slot += 1
        if visible > num_values or (slot == stop and (begun != ordinal[i] or i % 2 == 0)):
            return ~np.int64(i)
        out_slots[i] = slot
        out_values[i] = first_value[chunk] + visible
    return 0
