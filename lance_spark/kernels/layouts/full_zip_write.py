"""Zips levels and values of a page, slot by slot (`lance.encodings21.FullZipLayout`).

A slot is a control word ``(rep << bits_def) | def`` of 0, 1, 2 or 4 bytes, then its value; the placeholder of a null
or empty list is only its control word. Values of fixed width are stored for nulls too, a null of variable width has
neither length nor bytes.

Addresses, lengths and counts are int64; `reps` or `defs` = 0 means that all levels are 0. Each kernel writes the start
of every row, and the end, to `row_starts` (int64[num_rows + 1], 0: not wanted); it returns the bytes written.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u32,
    pointer_u64,
)


@inlined
def _write_control(target, control_bytes, word):
    if control_bytes == 1:
        pointer_u8(target)[0] = word
    elif control_bytes == 2:
        pointer_u16(target)[0] = word
    elif control_bytes == 4:
        pointer_u32(target)[0] = word
    return target + control_bytes


@inlined
def _level(levels, index):
    if levels == 0:
        return np.int64(0)
    return np.int64(pointer_u16(levels)[index])


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def zip_fixed(
    reps, defs, num_items, max_rep, max_visible, bits_def, control_bytes, values, value_bytes, row_starts, target
):
    """Zips values of `value_bytes` bytes, one for each slot whose definition level is at most `max_visible`."""
    starts = pointer_i64(row_starts)
    begin = target
    row = 0
    for i in range(num_items):
        rep = _level(reps, i)
        level = _level(defs, i)
        if row_starts != 0 and rep == max_rep:
            starts[row] = target - begin
            row += 1
        target = _write_control(target, control_bytes, (rep << bits_def) | level)
        if level <= max_visible:
            copy_bytes(target, values, value_bytes)
            values += value_bytes
            target += value_bytes
    if row_starts != 0:
        starts[row] = target - begin
    return target - begin


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def zip_variable(
    reps,
    defs,
    num_items,
    max_rep,
    max_visible,
    bits_def,
    control_bytes,
    offsets,
    offset_bytes,
    data,
    row_starts,
    target,
):
    """Zips byte strings with lengths of `offset_bytes` bytes; the offsets start at 0, and nulls have one too."""
    starts = pointer_i64(row_starts)
    begin = target
    row = 0
    value = 0
    for i in range(num_items):
        rep = _level(reps, i)
        level = _level(defs, i)
        if row_starts != 0 and rep == max_rep:
            starts[row] = target - begin
            row += 1
        target = _write_control(target, control_bytes, (rep << bits_def) | level)
        if level <= max_visible:
            if level == 0:
                if offset_bytes == 4:
                    start = np.int64(pointer_i32(offsets)[value])
                    length = np.int64(pointer_i32(offsets)[value + 1]) - start
                    pointer_u32(target)[0] = length
                else:
                    start = pointer_i64(offsets)[value]
                    length = pointer_i64(offsets)[value + 1] - start
                    pointer_u64(target)[0] = length
                copy_bytes(target + offset_bytes, data + start, length)
                target += offset_bytes + length
            value += 1
    if row_starts != 0:
        starts[row] = target - begin
    return target - begin
