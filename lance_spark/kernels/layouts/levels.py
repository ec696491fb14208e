"""Converts repetition and definition levels to Arrow offsets and validity bitmaps (see `lance_spark.layouts.repdef`).

Levels are ``uint16``, one per slot. Addresses and counts are ``int64``. A negative result means that the levels
violate the format; the outputs are then undefined, but nothing outside of them was written.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u16, pointer_u64

BLOCK = 64
"""Slots that are counted at once."""


@kernel("int64(int64, int64, int64, int64, int64)")
def validity_bitmap(levels, num_items, limit, max_level, bitmap):
    """Sets bit i of `bitmap` (LSB first, ceil(num_items / 8) bytes) to ``levels[i] <= limit``.

    Returns 0, or -1 if a level is above `max_level`. Both bounds are below 32768. Four levels are compared at once:
    adding ``0x7fff - bound`` to a level carries into its top bit exactly if the level is above the bound.
    """
    words = pointer_u64(levels)
    items = pointer_u16(levels)
    out = pointer_u8(bitmap)
    ones = np.uint64(0x0001000100010001)
    tops = np.uint64(0x8000800080008000)
    above_limit = np.uint64(0x7FFF - limit) * ones
    above_max = np.uint64(0x7FFF - max_level) * ones
    bad = np.uint64(0)
    num_bytes = num_items // 8
    for i in range(num_bytes):
        low = words[2 * i]
        high = words[2 * i + 1]
        bad |= low | high | (low + above_max) | (high + above_max)
        low = ((low + above_limit) & tops) >> np.uint64(15)
        high = ((high + above_limit) & tops) >> np.uint64(15)
        null = low | (high << np.uint64(4))
        null |= null >> np.uint64(15)
        null |= null >> np.uint64(30)
        out[i] = ~null & np.uint64(0xFF)
    trouble = np.int64(0)
    tail = num_items - 8 * num_bytes
    if tail > 0:
        byte = np.int64(0)
        for k in range(tail):
            level = np.int64(items[8 * num_bytes + k])
            trouble |= np.int64(level > max_level)
            byte |= np.int64(level <= limit) << k
        out[num_bytes] = byte
    if trouble != 0 or (bad & tops) != np.uint64(0):
        return -1
    return 0


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


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def check_list_levels(repetition, definition, num_items, max_rep, max_def, max_inside):
    """Returns 0, or -1 if a level is too large, or a slot inside a list (repetition 0) is above `max_inside`.

    `definition` = 0 means no definition levels.
    """
    reps = pointer_u16(repetition)
    definitions = pointer_u16(definition)
    count = np.uint64(num_items)
    worst = np.uint16(0)
    if num_items > 0 and reps[0] == 0:
        return -1
    for i in range(count):
        worst = max(worst, reps[i])
    if np.int64(worst) > max_rep:
        return -1
    if definition == 0:
        return 0
    worst = np.uint16(0)
    inside = np.uint16(0)
    for i in range(count):
        level = definitions[i]
        worst = max(worst, level)
        inside = max(inside, np.uint16(level if reps[i] == 0 else np.uint16(0)))
    if np.int64(worst) > max_def or np.int64(inside) > max_inside:
        return -1
    return 0


@kernel("void(int64, int64, int64, int64)")
def levels_of_starts(repetition, levels, num_items, output):
    """Copies `levels` of the slots that begin a list (repetition above 0); `output` has room for one more."""
    reps = pointer_u16(repetition)
    source = pointer_u16(levels)
    out = pointer_u16(output)
    start = np.uint64(0)
    for i in range(np.uint64(num_items)):
        out[start] = source[i]
        start += np.uint64(reps[i] != 0)


@kernel("void(int64, int64, int64)")
def list_starts(repetition, num_items, offsets):
    """Writes int32 offsets of the lists, which begin where the repetition level is above 0; every slot has a value."""
    reps = pointer_u16(repetition)
    out = pointer_i32(offsets)
    start = np.uint64(0)
    for i in range(np.uint64(num_items)):
        out[start] = np.int32(i)
        start += np.uint64(reps[i] != 0)
    out[start] = np.int32(num_items)


@kernel("int64(int64, int64, int64, int64, int64)")
def list_starts_visible(repetition, definition, num_items, max_visible, offsets):
    """Writes int32 offsets of lists of which only slots up to `max_visible` have a value; returns the number of values.

    A placeholder also begins a list, an empty one.
    """
    reps = pointer_u16(repetition)
    definitions = pointer_u16(definition)
    out = pointer_i32(offsets)
    bound = np.uint64(max_visible)
    start = np.uint64(0)
    visible = np.uint64(0)
    for i in range(np.uint64(num_items)):
        out[start] = np.int32(visible)
        start += np.uint64(reps[i] != 0)
        visible += np.uint64(np.uint64(definitions[i]) <= bound)
    out[start] = np.int32(visible)
    return np.int64(visible)


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
