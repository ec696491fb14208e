"""Repetition and definition levels to Arrow offsets and validity bitmaps (see `lance_spark.layouts.repdef`).

Levels are ``uint16``, one a slot. Addresses and counts are ``int64``. A negative result means that the levels
contradict the format; the outputs are then undefined, but nothing outside of them was written.
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
    """Copies the definition levels that are at most `max_visible` to `output`; returns how many.

    There is room for `num_items`.
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
def list_offsets(repetition, num_items, max_rep, num_lists, offsets, next_repetition):
    """Offsets of the lists that begin where the level is not 0, for levels without placeholders.

    Writes int32[num_lists + 1] to `offsets`, and the levels of the list starts less 1 to `next_repetition` (0: not
    wanted). `num_lists` is the number of levels that are not 0. Returns 0, or -1 if the first level is 0, one is above
    `max_rep` or `num_lists` is wrong.
    """
    levels = pointer_u16(repetition)
    out = pointer_i32(offsets)
    following = pointer_u16(next_repetition)
    if num_items > 0 and levels[0] == 0:
        return -1
    worst = np.uint16(0)
    count = np.int64(0)
    if next_repetition == 0:
        for i in range(num_items):
            level = levels[i]
            worst = max(worst, level)
            if count > num_lists:
                return -1
            out[count] = np.int32(i)
            count += np.int64(level != 0)
    else:
        for i in range(num_items):
            level = levels[i]
            worst = max(worst, level)
            if level != 0:
                if count >= num_lists:
                    return -1
                out[count] = np.int32(i)
                following[count] = level - np.uint16(1)
                count += 1
    if count != num_lists or np.int64(worst) > max_rep:
        return -1
    out[num_lists] = np.int32(num_items)
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def list_layer(
    repetition,
    definition,
    num_items,
    max_rep,
    inner_visible,
    empty_level,
    outer_visible,
    num_starts,
    offsets,
    valid,
    next_repetition,
    next_definition,
    num_visible,
    max_def,
):
    """One list layer with placeholders: offsets and validity of its lists, and the levels of the layer around it.

    A slot begins a list where its repetition level is not 0 (there are `num_starts` of them). Its definition level says
    which: at most `inner_visible` a list with items, `empty_level` an empty list, above `outer_visible` no list of
    this layer but the placeholder of one further out, anything else a null list (of its own, or under a null struct).

    Writes ``int32[lists + 1]`` to `offsets`, ``uint8[lists]`` to `valid` (1 = valid), the levels of all starts to
    `next_repetition` (less 1) and `next_definition`; each has room for `num_starts` (+ 1). `num_visible` is what the
    items below number. Returns the number of lists, or -1.
    """
    rep = pointer_u16(repetition)
    definitions = pointer_u16(definition)
    out = pointer_i32(offsets)
    out_valid = pointer_u8(valid)
    next_rep = pointer_u16(next_repetition)
    next_def = pointer_u16(next_definition)
    visible = np.int64(0)
    lists = np.int64(0)
    starts = np.int64(0)
    if num_items > 0 and rep[0] == 0:
        return -1
    for i in range(num_items):
        r = np.int64(rep[i])
        d = np.int64(definitions[i])
        if r != 0:
            if r > max_rep or d > max_def or starts >= num_starts:
                return -1
            next_rep[starts] = np.uint16(r - 1)
            next_def[starts] = np.uint16(d)
            starts += 1
            if d <= outer_visible:
                out[lists] = np.int32(visible)
                out_valid[lists] = np.uint8(d <= inner_visible or d == empty_level)
                lists += 1
            visible += np.int64(d <= inner_visible)
        else:
            if d > inner_visible:
                return -1
            visible += 1
    if starts != num_starts or visible != num_visible:
        return -1
    out[lists] = np.int32(visible)
    return lists


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def select_slots(
    repetition,
    definition,
    num_items,
    max_rep,
    max_visible,
    run_starts,
    run_rows,
    num_runs,
    wanted,
    num_rows,
    next_repetition,
    next_definition,
    values,
    counts,
):
    """The slots of wanted rows out of runs of chunks that need not begin or end at a row.

    Run k holds the slots from ``run_starts[k]`` (int64) to the start of the next run, and the first row that begins in
    it is row ``run_rows[k]`` (int64); slots before that belong to a row whose begin was not read. `wanted` is
    ``uint8[num_rows]``. `definition` may be 0 if there are no levels.

    Writes the levels of the wanted slots to `next_repetition`, `next_definition` (room for `num_items`), the numbers of
    their values among all visible values to `values` (int64), and to `counts` (int64[3]) the number of slots, of values
    and of rows. Returns 0, or -1 if a run has more rows than the page.
    """
    rep = pointer_u16(repetition)
    definitions = pointer_u16(definition)
    starts = pointer_i64(run_starts)
    rows = pointer_i64(run_rows)
    want = pointer_u8(wanted)
    next_rep = pointer_u16(next_repetition)
    next_def = pointer_u16(next_definition)
    out = pointer_i64(values)
    result = pointer_i64(counts)
    has_definition = definition != 0
    visible = np.int64(0)
    slots = np.int64(0)
    taken = np.int64(0)
    taken_rows = np.int64(0)
    for k in range(num_runs):
        stop = starts[k + 1] if k + 1 < num_runs else num_items
        row = rows[k] - 1
        keep = False
        if starts[k] < 0 or stop > num_items or row < -1:
            return -1
        for i in range(starts[k], stop):
            if np.int64(rep[i]) == max_rep:
                row += 1
                if row >= num_rows:
                    return -1
                keep = want[row] != 0
                taken_rows += np.int64(keep)
            level = np.uint16(0)
            if has_definition:
                level = definitions[i]
            is_visible = np.int64(level) <= max_visible
            if keep:
                next_rep[slots] = rep[i]
                if has_definition:
                    next_def[slots] = level
                slots += 1
                if is_visible:
                    out[taken] = visible
                    taken += 1
            visible += np.int64(is_visible)
    result[0] = slots
    result[1] = taken
    result[2] = taken_rows
    return 0
