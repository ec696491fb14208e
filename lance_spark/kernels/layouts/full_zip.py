"""Parses the slots of full-zip pages (`lance.encodings21.FullZipLayout`).

A slot is a control word of 0, 1, 2 or 4 bytes, ``(repetition << bits_def) | definition``, and its value: of fixed
width, or a length and as many bytes. `scan_slots` validates everything that the other kernels rely on.

Addresses, lengths and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u16


@inlined
def _number(address, num_bytes):
    bytes_ = pointer_u8(address)
    value = np.int64(0)
    for i in range(num_bytes):
        value |= np.int64(bytes_[i]) << (8 * i)
    return value


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def scan_slots(
    data, num_bytes, control_bytes, bits_def, max_rep, max_def, max_visible, value_bytes, length_bytes, counts
):
    """Counts slots until the end of the data: `counts` is int64[3], slots, values and bytes of values.

    `value_bytes` is the width of a value if `length_bytes` is 0. Returns 0, or -1 for a level or slot out of bounds.
    """
    result = pointer_i64(counts)
    mask = (np.int64(1) << bits_def) - 1
    position = np.int64(0)
    slots = np.int64(0)
    values = np.int64(0)
    total = np.int64(0)
    while position < num_bytes:
        if position + control_bytes > num_bytes:
            return -1
        control = _number(data + position, control_bytes)
        position += control_bytes
        level = control & mask
        if level > max_def or (control >> bits_def) > max_rep:
            return -1
        slots += 1
        if level > max_visible:
            continue
        values += 1
        size = value_bytes
        if length_bytes > 0:
            if level > 0:
                continue
            if position + length_bytes > num_bytes:
                return -1
            size = _number(data + position, length_bytes)
            position += length_bytes
        if size < 0 or size > num_bytes - position:
            return -1
        position += size
        total += size
    result[0] = slots
    result[1] = values
    result[2] = total
    return 0


@inlined
def _write_levels(control, bits_def, slot, repetition, definition):
    if repetition != 0:
        pointer_u16(repetition)[slot] = np.uint16(control >> bits_def)
    if definition != 0:
        pointer_u16(definition)[slot] = np.uint16(control & ((np.int64(1) << bits_def) - 1))


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def unzip_fixed(data, num_slots, control_bytes, bits_def, max_visible, value_bytes, repetition, definition, target):
    """Extracts levels and values of `num_slots` scanned slots of fixed width; no levels if their address is 0."""
    mask = (np.int64(1) << bits_def) - 1
    for slot in range(num_slots):
        control = _number(data, control_bytes)
        data += control_bytes
        _write_levels(control, bits_def, slot, repetition, definition)
        if (control & mask) <= max_visible:
            copy_bytes(target, data, value_bytes)
            data += value_bytes
            target += value_bytes


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def unzip_variable(
    data,
    num_slots,
    control_bytes,
    bits_def,
    max_visible,
    length_bytes,
    repetition,
    definition,
    wide,
    offsets,
    target,
):
    """Extracts levels and values of `num_slots` scanned slots with lengths; a null is an empty value.

    `offsets` has room for one more int64 (`wide` = 1) or int32 (`wide` = 0) than there are values.
    """
    mask = (np.int64(1) << bits_def) - 1
    narrow_out = pointer_i32(offsets)
    wide_out = pointer_i64(offsets)
    filled = np.int64(0)
    value = np.int64(0)
    for slot in range(num_slots):
        control = _number(data, control_bytes)
        data += control_bytes
        _write_levels(control, bits_def, slot, repetition, definition)
        level = control & mask
        if level > max_visible:
            continue
        if wide != 0:
            wide_out[value] = filled
        else:
            narrow_out[value] = np.int32(filled)
        value += 1
        if level == 0:
            size = _number(data, length_bytes)
            data += length_bytes
            copy_bytes(target + filled, data, size)
            data += size
            filled += size
    if wide != 0:
        wide_out[value] = filled
    else:
        narrow_out[value] = np.int32(filled)
