"""Values out of a chunk of a mini-block page: number `first` and those behind it, copied or, of byte strings, located.

A *kind* says how values lie in their chunk; a codec names its own (`MiniBlockEncoding.value_form`). Every number that
comes from the file is compared with the bytes that are there.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, packed_value
from lance_spark.kernels.compression.fsst import MAX_SYMBOL_BYTES
from lance_spark.kernels.jit import copy_bytes, inlined, pointer_i64, pointer_u8
from lance_spark.kernels.layouts.pick_levels import copy_runs
from lance_spark.kernels.words import read_word, write_word

PACKED = 0
"""One block of inline bit packing: its width in a word, and up to 1024 values."""

FLAT = 1
"""Values of some bytes, back to back."""

BITS = 2
"""Values of a bit, back to back."""

RUNS = 3
"""The values of runs; their lengths, of a byte each, are the next part of the chunk."""

SPLIT = 4
"""The first bytes of all values, then their second bytes, and so on."""

STRINGS = 5
"""An offset for each string and one more, counted from the first of them, then the bytes."""


@inlined
def copy_bit(source, place, target, to):
    """Copies bit `place` to bit `to`, which is 0."""
    bit = (pointer_u8(source)[place >> 3] >> np.uint8(place & 7)) & np.uint8(1)
    pointer_u8(target)[to >> 3] |= np.uint8(bit << np.uint8(to & 7))


@inlined
def locate_string(strings, room, number, source, length, symbols):
    """Notes string `number` of ``int64[3, room]``, if there is room: its address, its bytes and its symbols.

    Returns the most bytes that it can have.
    """
    if number < room:
        out = pointer_i64(strings)
        out[number] = source
        out[room + number] = length
        out[2 * room + number] = symbols
    return length * (MAX_SYMBOL_BYTES if symbols else 1)


@inlined
def _unpack_words(source, first, count, bits, width, target):
    for k in range(count):
        value = np.uint64(0)
        if bits > 0:
            value = packed_value(source + width, first + k, bits, 8 * width, BLOCK_VALUES // (8 * width))
        write_word(target + k * width, width, value)


@inlined
def _copy_packed(source, num_bytes, first, count, width, target):
    bits = np.int64(read_word(source, width)) if num_bytes >= width else np.int64(-1)
    if bits < 0 or bits > 8 * width or first + count > BLOCK_VALUES:
        return False
    if num_bytes < width + bits * BLOCK_BYTES_PER_BIT:
        return False
    # One loop for each width: with a constant, divisions are shifts.
    if width == 8:
        _unpack_words(source, first, count, bits, 8, target)
    elif width == 4:
        _unpack_words(source, first, count, bits, 4, target)
    elif width == 2:
        _unpack_words(source, first, count, bits, 2, target)
    else:
        _unpack_words(source, first, count, bits, 1, target)
    return True


@inlined
def _copy_split(source, num_bytes, held, first, count, width, target):
    if held > num_bytes // width:
        return False
    out = pointer_u8(target)
    for k in range(count):
        value = pointer_u8(source + first + k)
        for byte in range(width):
            out[k * width + byte] = value[byte * held]
    return True


@inlined
def _locate_strings(source, num_bytes, held, first, count, offset_bytes, symbols, taken, room, strings):
    """Locates strings; the most bytes that they can have, -1 if the chunk is broken."""
    if (held + 1) * offset_bytes > num_bytes:
        return np.int64(-1)
    low = np.int64(read_word(source + first * offset_bytes, offset_bytes))
    most = np.int64(0)
    for k in range(count):
        high = np.int64(read_word(source + (first + k + 1) * offset_bytes, offset_bytes))
        if low < 0 or low > high or high > num_bytes:
            return np.int64(-1)
        most += locate_string(strings, room, taken + k, source + low, high - low, symbols)
        low = high
    return most


@inlined
def take_values(
    source, num_bytes, lengths, num_runs, held, first, count, kind, width, symbols, taken, room, values
):  # fmt: skip
    """Takes values from number `first` on of the `held` ones in `num_bytes` bytes at `source`.

    Args:
        lengths, num_runs: where the lengths of runs are, and their bytes.
        count: of values that are taken; with `first` not more than `held`.
        kind, width: how values lie; bytes of a value, 0 for bits, of strings those of an offset.
        symbols: where the symbols of strings are in memory, 0 if they are not compressed.
        taken, room: values that were taken before, and how many there is room for.
        values: where they go; of strings ``int64[3, room]``, see `locate_string`.

    Returns:
        The most bytes of strings, 0 for other values; -1 if the bytes contradict these numbers.
    """
    if kind == STRINGS:
        return _locate_strings(source, num_bytes, held, first, count, width, symbols, taken, room, values)
    is_valid = False
    target = values + taken * width
    if kind == PACKED:
        is_valid = _copy_packed(source, num_bytes, first, count, width, target)
    elif kind == FLAT:
        is_valid = held <= num_bytes // width
        if is_valid:
            copy_bytes(target, source + first * width, count * width)
    elif kind == BITS:
        is_valid = held <= 8 * num_bytes
        if is_valid:
            for k in range(count):
                copy_bit(source, first + k, values, taken + k)
    elif kind == RUNS:
        is_valid = copy_runs(source, num_bytes, lengths, num_runs, first, count, width, target)
    elif kind == SPLIT:
        is_valid = _copy_split(source, num_bytes, held, first, count, width, target)
    return np.int64(0) if is_valid else np.int64(-1)
