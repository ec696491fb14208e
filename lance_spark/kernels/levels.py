"""Converts repetition and definition levels to Arrow offsets and validity bitmaps (see `lance_spark.layouts.repdef`).

Levels are ``uint16``, one per slot. Addresses and counts are ``int64``. A negative result means that the levels
violate the format; the outputs are then undefined, but nothing outside of them was written.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u16, pointer_u64


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
    """As `list_starts`, if only slots up to `max_visible` have a value; returns the number of values.

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


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def row_places(repetition, definition, num_items, max_rep, max_visible, run_starts, num_runs, run_rows, slots, values):
    """Locates row starts in runs of slots that need not begin or end at row boundaries.

    Run k extends from slot ``run_starts[k]`` (int64) to the start of the next run. `definition` = 0: all slots have
    values. `slots` and `values` get the slot and the number of values before it (int64) for each row start, with one
    more entry for the end of each run. `run_rows` (int64[num_runs]) gets the number of rows that begin in each run.
    `slots` and `values` have room for all rows and runs, and one more entry.

    Returns the number of entries.
    """
    reps = pointer_u16(repetition)
    definitions = pointer_u16(definition)
    starts = pointer_i64(run_starts)
    out_rows = pointer_i64(run_rows)
    out_slots = pointer_i64(slots)
    out_values = pointer_i64(values)
    row = np.uint64(max_rep)
    bound = np.uint64(max_visible)
    visible = np.uint64(0)
    entry = np.uint64(0)
    for k in range(num_runs):
        first = entry
        stop = starts[k + 1] if k + 1 < num_runs else num_items
        if definition == 0:
            for i in range(np.uint64(starts[k]), np.uint64(stop)):
                out_slots[entry] = np.int64(i)
                out_values[entry] = np.int64(i)
                entry += np.uint64(np.uint64(reps[i]) == row)
            visible = np.uint64(stop)
        else:
            for i in range(np.uint64(starts[k]), np.uint64(stop)):
                out_slots[entry] = np.int64(i)
                out_values[entry] = np.int64(visible)
                entry += np.uint64(np.uint64(reps[i]) == row)
                visible += np.uint64(np.uint64(definitions[i]) <= bound)
        out_rows[k] = np.int64(entry - first)
        out_slots[entry] = stop
        out_values[entry] = np.int64(visible)
        entry += np.uint64(1)
    return np.int64(entry)
