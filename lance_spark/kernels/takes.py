"""Single values out of encoded chunks, without decoding the others.

Value i is number `places[i]` of chunk `chunks[i]`; both are checked by the caller against the tables of chunks. All
arguments are int64. A negative result is ``~i`` for the first value whose chunk contradicts its size.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8
from lance_spark.kernels.words import read_word, write_word


@inlined
def packed_value(source, place, width, word_bits, lanes):
    """Value `place` of a packed block of words of `width` > 0 bits; there are `lanes` = 1024 / `word_bits` lanes."""
    word_bytes = word_bits >> 3
    rest = place & 127
    order = rest // lanes * (lanes >> 4)
    octet = ((order & 1) << 2) | (order & 2) | (order >> 2)
    bit = (octet * 8 + (place >> 7)) * width
    word = bit // word_bits
    shift = bit - word * word_bits
    source += (word * lanes + rest % lanes) * word_bytes
    value = read_word(source, word_bytes) >> np.uint64(shift)
    if shift + width > word_bits:
        value |= read_word(source + lanes * word_bytes, word_bytes) << np.uint64(word_bits - shift)
    if width < 64:
        value &= (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    return value


@inlined
def _take_inline(data, starts, sizes, chunks, places, num_taken, word_bits, target):
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    chunk = pointer_i64(chunks)
    place = pointer_i64(places)
    word_bytes = word_bits >> 3
    lanes = BLOCK_VALUES // word_bits
    for i in range(num_taken):
        first = data + start[chunk[i]]
        if size[chunk[i]] < word_bytes or place[i] >= BLOCK_VALUES:
            return ~np.int64(i)
        width = np.int64(read_word(first, word_bytes))
        if width < 0 or width > word_bits or size[chunk[i]] < word_bytes + width * BLOCK_BYTES_PER_BIT:
            return ~np.int64(i)
        value = np.uint64(0)
        if width > 0:
            value = packed_value(first + word_bytes, place[i], width, word_bits, lanes)
        write_word(target + i * word_bytes, word_bytes, value)
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def take_inline(data, starts, sizes, chunks, places, num_taken, word_bits, target):
    """Copies values of inline bit packing (`lance_spark.kernels.bitpack` has the order of a block)."""
    # One loop for each width: with a constant, divisions are shifts.
    if word_bits == 8:
        return _take_inline(data, starts, sizes, chunks, places, num_taken, 8, target)
    if word_bits == 16:
        return _take_inline(data, starts, sizes, chunks, places, num_taken, 16, target)
    if word_bits == 32:
        return _take_inline(data, starts, sizes, chunks, places, num_taken, 32, target)
    return _take_inline(data, starts, sizes, chunks, places, num_taken, 64, target)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def take_flat(data, starts, sizes, num_values, chunks, places, num_taken, width, target):
    """Copies values of `width` > 0 bytes, of which each chunk has `num_values`."""
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    count = pointer_i64(num_values)
    chunk = pointer_i64(chunks)
    place = pointer_i64(places)
    for i in range(num_taken):
        if count[chunk[i]] > size[chunk[i]] // width or place[i] >= count[chunk[i]]:
            return ~np.int64(i)
        source = data + start[chunk[i]] + place[i] * width
        if width == 8:
            write_word(target + i * 8, 8, read_word(source, 8))
        else:
            copy_bytes(target + i * width, source, width)
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def take_split(data, starts, sizes, num_values, chunks, places, num_taken, width, target):
    """Copies values whose bytes are split (`lance_spark.kernels.byte_stream_split`); see `take_flat`."""
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    count = pointer_i64(num_values)
    chunk = pointer_i64(chunks)
    place = pointer_i64(places)
    out = pointer_u8(target)
    for i in range(num_taken):
        length = count[chunk[i]]
        if length > size[chunk[i]] // width or place[i] >= length:
            return ~np.int64(i)
        source = pointer_u8(data + start[chunk[i]] + place[i])
        for byte in range(width):
            out[i * width + byte] = source[byte * length]
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def take_bits(data, starts, sizes, num_values, chunks, places, num_taken, target):
    """Copies values of one bit to `num_taken` bits at `target`; see `take_flat`."""
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    count = pointer_i64(num_values)
    chunk = pointer_i64(chunks)
    place = pointer_i64(places)
    out = pointer_u8(target)
    byte = np.uint8(0)
    for i in range(num_taken):
        if place[i] >= count[chunk[i]] or count[chunk[i]] > size[chunk[i]] * 8:
            return ~np.int64(i)
        held = pointer_u8(data + start[chunk[i]])[place[i] >> 3]
        byte |= np.uint8(((held >> np.uint8(place[i] & 7)) & np.uint8(1)) << np.uint8(i & 7))
        if i & 7 == 7 or i == num_taken - 1:
            out[i >> 3] = byte
            byte = np.uint8(0)
    return 0


@inlined
def out_of_line_value(source, size, num_values, place, word_bits, width):
    """(value, 1) number `place` of `num_values` in `size` bytes at `source`; (0, 0) if they contradict each other."""
    blocks = num_values // BLOCK_VALUES
    block_bytes = width * BLOCK_BYTES_PER_BIT
    left = size - blocks * block_bytes
    if left < 0 or place >= num_values:
        return np.uint64(0), np.int64(0)
    block = place // BLOCK_VALUES
    within = place - block * BLOCK_VALUES
    source += block * block_bytes
    word_bytes = word_bits >> 3
    if block == blocks and left == (num_values - blocks * BLOCK_VALUES) * word_bytes:
        return read_word(source + within * word_bytes, word_bytes), np.int64(1)
    if block == blocks and left < block_bytes:
        return np.uint64(0), np.int64(0)
    if width == 0:
        return np.uint64(0), np.int64(1)
    return packed_value(source, within, width, word_bits, BLOCK_VALUES // word_bits), np.int64(1)


@inlined
def _take_out_of_line(data, starts, sizes, num_values, chunks, places, num_taken, word_bits, width, target):
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    count = pointer_i64(num_values)
    chunk = pointer_i64(chunks)
    place = pointer_i64(places)
    word_bytes = word_bits >> 3
    for i in range(num_taken):
        at = chunk[i]
        value, is_valid = out_of_line_value(data + start[at], size[at], count[at], place[i], word_bits, width)
        if not is_valid:
            return ~np.int64(i)
        write_word(target + i * word_bytes, word_bytes, value)
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def take_out_of_line(data, starts, sizes, num_values, chunks, places, num_taken, word_bits, width, target):
    """Copies values of out-of-line bit packing; its tails as in `lance_spark.kernels.bitpack.unpack_out_of_line`."""
    # A loop of its own for levels: with a constant, divisions are shifts.
    if word_bits == 16:
        return _take_out_of_line(data, starts, sizes, num_values, chunks, places, num_taken, 16, width, target)
    return _take_out_of_line(data, starts, sizes, num_values, chunks, places, num_taken, word_bits, width, target)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def locate_variable(data, starts, sizes, chunks, places, num_taken, offset_bytes, value_starts, value_lengths, ends):
    """Finds strings by the offsets at the beginning of their chunks; returns their bytes.

    `value_starts` and `value_lengths` get their starts in `data` and their lengths, `ends` (int64[num_taken + 1]) 0 and
    the bytes up to the end of each.
    """
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    chunk = pointer_i64(chunks)
    place = pointer_i64(places)
    found = pointer_i64(value_starts)
    length = pointer_i64(value_lengths)
    end = pointer_i64(ends)
    end[0] = 0
    for i in range(num_taken):
        limit = size[chunk[i]]
        if (place[i] + 2) * offset_bytes > limit:
            return ~np.int64(i)
        entry = data + start[chunk[i]] + place[i] * offset_bytes
        low = np.int64(read_word(entry, offset_bytes))
        high = np.int64(read_word(entry + offset_bytes, offset_bytes))
        if low < 0 or low > high or high > limit:
            return ~np.int64(i)
        found[i] = start[chunk[i]] + low
        length[i] = high - low
        end[i + 1] = end[i] + length[i]
    return end[num_taken]
