"""Converts Arrow validity and offsets to repetition levels and codes, layer by layer from the row inward.

An *item* is a future level slot of the page. During the traversal of a path every item has a u16 *code*: 0 for "valid
so far", otherwise the code of the layer at which it became null or empty. Codes increase from the outermost layer
inward, so an item still owns a slot of the current child array if its code is 0 or above `open_above`, the largest
code of the lists processed so far. Codes are converted to definition levels per page (`recode`).

Addresses, lengths and counts are int64; bitmaps are LSB first. A negative result means that the offsets decrease.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u16, pointer_u64


@inlined
def _bit(bitmap, index):
    return (pointer_u8(bitmap)[index >> 3] >> (index & 7)) & 1


@inlined
def _offset(offsets, wide, index):
    if wide:
        return pointer_i64(offsets)[index]
    return np.int64(pointer_i32(offsets)[index])


@kernel("void(int64, int64, int64, int64, int64)")
def first_nulls(validity, bit_offset, num_slots, null_code, codes):
    """Writes codes of slots that were all valid so far: `null_code` where the bit is 0, else 0."""
    bits = pointer_u8(validity + (bit_offset >> 3))
    shift = np.uint64(bit_offset & 7)
    out = pointer_u64(codes)
    code = np.uint64(null_code)
    num_bytes = num_slots >> 3
    # Multiplication by `spread` moves four bits to the lowest bits of four u16 words.
    spread = np.uint64(0x0000200040008001)
    lanes = np.uint64(0x0001000100010001)
    nibble = np.uint64(15)
    for i in range(np.uint64(num_bytes)):
        word = np.uint64(bits[i])
        if shift != 0:
            word = (word >> shift) | (np.uint64(bits[i + np.uint64(1)]) << (np.uint64(8) - shift))
        null = ~word
        out[np.uint64(2) * i] = (((null & nibble) * spread) & lanes) * code
        out[np.uint64(2) * i + np.uint64(1)] = ((((null >> np.uint64(4)) & nibble) * spread) & lanes) * code
    tail = pointer_u16(codes)
    for i in range(num_bytes << 3, num_slots):
        tail[i] = (1 - _bit(validity, bit_offset + i)) * null_code


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def mark_nulls(codes, num_items, open_above, validity, bit_offset, null_code):
    """Sets `null_code` at open, valid items whose bit is 0 (`validity` = 0: all are null). Returns their number."""
    code = pointer_u16(codes)
    slot = bit_offset
    nulls = 0
    for i in range(np.uint64(num_items)):
        if code[i] == 0 or code[i] > open_above:
            if code[i] == 0 and (validity == 0 or _bit(validity, slot) == 0):
                code[i] = null_code
                nulls += 1
            slot += 1
    return nulls


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def measure_lists(codes, num_items, open_above, validity, bit_offset, offsets, wide, num_slots, target):
    """Measures the result of a list layer; `codes` = 0: all are valid so far, `validity` = 0: no list is null.

    `target` gets int64[4]: items after the layer, null lists, empty lists, child values outside of visible lists.
    """
    code = pointer_u16(codes)
    result = pointer_i64(target)
    items = 0
    nulls = 0
    empties = 0
    hidden = 0
    slot = 0
    for i in range(np.uint64(num_items)):
        if codes != 0 and code[i] != 0 and code[i] <= open_above:
            items += 1
            continue
        length = _offset(offsets, wide, slot + 1) - _offset(offsets, wide, slot)
        if length < 0:
            return -1
        if codes != 0 and code[i] != 0:
            items += 1
            hidden += length
        elif validity != 0 and _bit(validity, bit_offset + slot) == 0:
            items += 1
            nulls += 1
            hidden += length
        elif length == 0:
            items += 1
            empties += 1
        else:
            items += length
        slot += 1
    if slot != num_slots:
        return -1
    result[0] = items
    result[1] = nulls
    result[2] = empties
    result[3] = hidden
    return 0


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def expand_lists(
    reps,
    codes,
    num_items,
    open_above,
    validity,
    bit_offset,
    offsets,
    wide,
    start_rep,
    null_code,
    out_reps,
    out_codes,
    out_slots,
):
    """Expands the visible lists: the first value has the level of the list (`reps` = 0: `start_rep`).

    A null list becomes one item of `null_code`, an empty one of `null_code + 1`, a masked one keeps its code.
    `out_reps` is prefilled with the level of the other values, `out_codes` with 0 (or is 0 if all codes are 0).
    `out_slots` gets the child index of every visible value, or is 0.
    """
    rep = pointer_u16(reps)
    code = pointer_u16(codes)
    out_rep = pointer_u16(out_reps)
    out_code = pointer_u16(out_codes)
    out_slot = pointer_i64(out_slots)
    slot = 0
    at = 0
    child = 0
    for i in range(np.uint64(num_items)):
        before = np.int64(code[i]) if codes != 0 else 0
        out_rep[at] = rep[i] if reps != 0 else start_rep
        start = 0
        stop = 0
        if before == 0 or before > open_above:
            start = _offset(offsets, wide, slot)
            stop = _offset(offsets, wide, slot + 1)
            if before == 0:
                if validity != 0 and _bit(validity, bit_offset + slot) == 0:
                    before = null_code
                elif start == stop:
                    before = null_code + 1
            slot += 1
        if before != 0:
            out_code[at] = before
            at += 1
            continue
        at += stop - start
        if out_slots != 0:
            for j in range(start, stop):
                out_slot[child] = j
                child += 1


@kernel("void(int64, int64, int64, int64)")
def recode(codes, num_items, table, levels):
    """Writes `table[code]`, the definition level of this page, for every code."""
    code = pointer_u16(codes)
    level = pointer_u16(table)
    out = pointer_u16(levels)
    for i in range(np.uint64(num_items)):
        out[i] = level[code[i]]
