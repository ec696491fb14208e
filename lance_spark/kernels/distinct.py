"""Distinct values of a page: the items of its dictionary, and which item each value is.

Addresses, lengths and counts are int64. Offsets of byte strings come from a `VariableWidthBlock`: they begin at 0,
never decrease and are within the bytes.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u64
from lance_spark.kernels.words import offset_at


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
def _hash(address, length, stop):
    """A hash of the bytes; its high bits are the best ones."""
    state = np.uint64(length)
    for at in range(0, length, 8):
        state = (state ^ _word(address + at, length - at, stop)) * np.uint64(0x9E3779B97F4A7C15)
        state ^= state >> np.uint64(32)
    return state * np.uint64(0x9E3779B97F4A7C15)


@inlined
def _equal(left, right, length, stop):
    for at in range(0, length, 8):
        if _word(left + at, length - at, stop) != _word(right + at, length - at, stop):
            return False
    return True


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def distinct_values(
    offsets,
    offset_bytes,
    data,
    data_bytes,
    value_bytes,
    num_values,
    validity,
    bit_offset,
    max_items,
    slots,
    slot_bits,
    indices,
    firsts,
):
    """The distinct valid values, bitwise, in the order in which they first occur.

    Args:
        offsets: num_values + 1 offsets of `offset_bytes` (4 or 8) bytes; with `offset_bytes` 0 every value has
            `value_bytes` bytes.
        validity: bits, from bit `bit_offset` on; 0 if all values are valid.
        max_items: gives up after this many.
        slots: int32[1 << slot_bits], all 0; more than `max_items`.
        indices: int32[num_values], gets the item of each value; 0 for nulls.
        firsts: int64[max_items], gets the first value that is each item.

    Returns:
        the number of items, or -1 if there are more than `max_items`.
    """
    slot = pointer_i32(slots)
    index = pointer_i32(indices)
    first = pointer_i64(firsts)
    valid = pointer_u8(validity)
    mask = (np.uint64(1) << np.uint64(slot_bits)) - np.uint64(1)
    shift = np.uint64(64 - slot_bits)
    stop = data + data_bytes
    count = 0
    begin = np.int64(0)
    other = np.int64(0)
    length = value_bytes
    other_length = value_bytes
    for i in range(num_values):
        index[i] = 0
        bit = bit_offset + i
        if validity != 0 and (valid[bit >> 3] >> (bit & 7)) & 1 == 0:
            continue
        begin = i * value_bytes
        if offset_bytes != 0:
            begin = offset_at(offsets, offset_bytes, i)
            length = offset_at(offsets, offset_bytes, i + 1) - begin
        place = _hash(data + begin, length, stop) >> shift
        while slot[place] != 0:
            at = np.int64(slot[place]) - 1
            other = at * value_bytes
            if offset_bytes != 0:
                other = offset_at(offsets, offset_bytes, at)
                other_length = offset_at(offsets, offset_bytes, at + 1) - other
            if other_length == length and _equal(data + other, data + begin, length, stop):
                break
            place = (place + np.uint64(1)) & mask
        if slot[place] == 0:
            if count == max_items:
                return -1
            slot[place] = i + 1
            index[i] = count
            first[count] = i
            count += 1
        else:
            index[i] = index[np.int64(slot[place]) - 1]
    return count
