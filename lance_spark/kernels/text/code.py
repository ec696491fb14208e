"""Cutting source code into identifiers, their parts, and operators."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8
from lance_spark.kernels.text.tokens import decode_character

# Classes of characters, as bits.
WORD = 1
UPPER = 2
LOWER = 4
DIGIT = 8
OPERATOR = 16
UNDERSCORE = 32

# Flags of `split_code`.
INDEX_OPERATORS = 1
SPLIT = 2
SPLIT_ON_NUMERICS = 4
PRESERVE_ORIGINAL = 8

_LONGEST_OPERATOR = 4


@inlined
def _end_of_word(data, classes, place, stop):
    while place < stop:
        code, size = decode_character(data, place, stop)
        if classes[code] & WORD == 0:
            break
        place += size
    return place


@inlined
def _end_of_part(data, classes, place, stop, numerics):
    """End of the part that starts at `place`, which is no underscore."""
    code, size = decode_character(data, place, stop)
    before = np.int64(classes[code])
    place += size
    while place < stop:
        code, size = decode_character(data, place, stop)
        this = np.int64(classes[code])
        if this & UNDERSCORE != 0:
            break
        if numerics and before & DIGIT != this & DIGIT:
            break
        if this & UPPER != 0:
            if before & LOWER != 0:
                break
            if before & UPPER != 0 and place + size < stop:
                code, _ = decode_character(data, place + size, stop)
                if classes[code] & LOWER != 0:
                    break
        before = this
        place += size
    return place


@inlined
def _count_parts(data, classes, place, stop, numerics):
    parts = 0
    while place < stop:
        if data[place] == 0x5F:
            place += 1
        else:
            place = _end_of_part(data, classes, place, stop, numerics)
            parts += 1
    return parts


@inlined
def _operator_size(data, place, stop, operators, num_operators):
    """The bytes of the longest operator at `place`, which is the character of one."""
    longest = 1
    key = np.int64(0)
    for size in range(1, min(_LONGEST_OPERATOR, stop - place) + 1):
        key = key << 8 | np.int64(data[place + size - 1])
        for i in range(num_operators):
            if operators[i] == key:
                longest = size
    return longest


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def split_code(
    data_at,
    num_bytes,
    offsets_at,
    num_texts,
    classes_at,
    operators_at,
    num_operators,
    flags,
    starts_at,
    lengths_at,
    positions_at,
    counts_at,
    capacity,
):
    """Cuts each text into identifiers and, depending on the flags, their parts and operators.

    Args:
        data_at, num_bytes: the UTF-8 bytes of all texts.
        offsets_at: i64[num_texts + 1], where texts start and end in the data.
        classes_at: u8[0x110000], the classes of characters.
        operators_at: i64[num_operators], the operators of several characters, their bytes as a big-endian number.
        flags: see above.
        starts_at, lengths_at, positions_at: i64, i32 and i32[capacity], filled with the tokens.
        counts_at: i64[num_texts], filled with the number of tokens of each text.

    Returns:
        The number of tokens; -1: an offset is outside of the data, -2: more tokens than `capacity`.
    """
    data = pointer_u8(data_at)
    offsets = pointer_i64(offsets_at)
    classes = pointer_u8(classes_at)
    operators = pointer_i64(operators_at)
    starts = pointer_i64(starts_at)
    lengths = pointer_i32(lengths_at)
    positions = pointer_i32(positions_at)
    counts = pointer_i64(counts_at)
    numerics = flags & SPLIT_ON_NUMERICS != 0
    found = np.int64(0)
    for text in range(num_texts):
        place = offsets[text]
        stop = offsets[text + 1]
        if place < 0 or stop < place or stop > num_bytes:
            return -1
        before = found
        position = np.int64(0)
        while place < stop:
            code, size = decode_character(data, place, stop)
            kind = np.int64(classes[code])
            parts = np.int64(0)
            if kind & WORD != 0:
                end = np.int64(_end_of_word(data, classes, place, stop))
                if flags & SPLIT != 0:
                    parts = np.int64(_count_parts(data, classes, place, end, numerics))
            elif flags & INDEX_OPERATORS != 0 and kind & OPERATOR != 0:
                end = place + _operator_size(data, place, stop, operators, num_operators)
            else:
                place += size
                continue
            if parts <= 1 or flags & PRESERVE_ORIGINAL != 0:
                if found >= capacity:
                    return -2
                starts[found] = place
                lengths[found] = end - place
                positions[found] = position
                found += 1
            if parts <= 1:
                position += 1
                place = end
                continue
            while place < end:
                if data[place] == 0x5F:
                    place += 1
                    continue
                last = _end_of_part(data, classes, place, end, numerics)
                if found >= capacity:
                    return -2
                starts[found] = place
                lengths[found] = last - place
                positions[found] = position
                found += 1
                position += 1
                place = last
        counts[text] = found - before
    return found
