"""FastLanes bit packing: 1024 values of 8, 16, 32 or 64 bits, each truncated to its low W bits.

A value word has T bits, so a *row* of 1024 bits holds L = 1024/T lanes. Row r, lane l is the value at
``ORDER[r // 8] * 16 + (r % 8) * 128 + l`` with ORDER = 0, 4, 2, 6, 1, 5, 3, 7 (three bits reversed). Each lane is a
stream of T times W bits, low bits first, split into words of T bits; word k of lane l is at ``packed[k * L + l]``. So
1024 values take 128 * W bytes for any T, and W = 0 takes none. (The FastLanes compression layout, VLDB 2023;
`lance.encodings21.InlineBitpacking`, `OutOfLineBitpacking`.)

All lanes of a row are shifted equally, so a row is processed as 16 u64 words for any T, with masks that repeat every
T bits.

Addresses, lengths and counts are int64. A negative result is ``~i``, where i is the first chunk whose bytes are
inconsistent with its header or its number of values; the output is then undefined.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pack_high_row,
    pack_row,
    pointer_i64,
    pointer_u8,
    pointer_u64,
    prefetch,
    unpack_row,
    unpack_split_row,
)
from lance_spark.kernels.words import read_word, write_word

BLOCK_VALUES = 1024
"""Values that are packed together."""

BLOCK_BYTES_PER_BIT = 128
"""Bytes of a block per bit of width."""

CHUNKS_AHEAD = 8
"""The chunk whose first bytes are fetched into the cache meanwhile: short parts of chunks lie far apart."""


@inlined
def _low_bits(count, word_bits):
    """A u64 with the `count` low bits of every word of `word_bits` bits set; 0 <= count <= word_bits."""
    if count <= 0:
        return np.uint64(0)
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - count)
    if word_bits == 32:
        mask *= np.uint64(0x0000000100000001)
    elif word_bits == 16:
        mask *= np.uint64(0x0001000100010001)
    elif word_bits == 8:
        mask *= np.uint64(0x0101010101010101)
    return mask


@inlined
def _row_offset(row, word_bits):
    """Byte offset of row `row` among 1024 values in their logical order."""
    octet = row >> 3
    order = ((octet & 1) << 2) | (octet & 2) | (octet >> 2)
    return (order * 16 + (row & 7) * 128) * (word_bits >> 3)


@inlined
def _clear(target, length):
    out = pointer_u8(target)
    for i in range(np.uint64(length)):
        out[i] = 0


@inlined
def unpack_block(source, width, word_bits, target):
    """Unpacks 128 * width bytes into 1024 words of word_bits bits; 0 <= width <= word_bits.

    Rows are unpacked in the order of their values, because memory that is in no cache is written twice as fast from
    start to end. The source is read back and forth then, so the next block, which mostly follows, is fetched meanwhile.
    """
    if width == 0:
        _clear(target, 128 * word_bits)
        return
    whole = _low_bits(width, word_bits)
    log_octets = np.int64(word_bits > 8) + np.int64(word_bits > 16) + np.int64(word_bits > 32)
    following = source + width * BLOCK_BYTES_PER_BIT
    for within in range(8):
        for line in range(2 * width * within >> 3, 2 * width * (within + 1) >> 3):
            prefetch(following + line * 64)
        for k in range(1 << log_octets):
            octet = (((k & 1) << 2) | (k & 2) | (k >> 2)) >> (3 - log_octets)
            bit = (octet * 8 + within) * width
            first = source + (bit >> (3 + log_octets)) * 128
            shift = bit & (word_bits - 1)
            in_first = word_bits - shift
            if width <= in_first:
                unpack_row(first, np.uint64(shift), whole, target)
            else:
                low = _low_bits(in_first, word_bits)
                high = _low_bits(width - in_first, word_bits)
                unpack_split_row(first, np.uint64(shift), low, np.uint64(in_first), high, target)
            target += 128


@inlined
def _pack_block(source, width, word_bits, target):
    """Packs the low `width` bits of 1024 words into 128 * width bytes."""
    _clear(target, 128 * width)
    if width == 0:
        return
    for row in range(word_bits):
        bit = row * width
        word = bit // word_bits
        shift = bit - word * word_bits
        values = source + _row_offset(row, word_bits)
        in_first = min(word_bits - shift, width)
        pack_row(values, _low_bits(in_first, word_bits), np.uint64(shift), target + word * 128)
        if in_first < width:
            high = _low_bits(width, word_bits) ^ _low_bits(in_first, word_bits)
            pack_high_row(values, high, np.uint64(in_first), target + (word + 1) * 128)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def unpack_inline(data, starts, sizes, num_values, num_chunks, word_bits, target):
    """Unpacks chunks, each a width word and one block of up to 1024 values, back to back.

    `target` needs room for all values and 1023 more words, because a block is always unpacked completely.
    """
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    count = pointer_i64(num_values)
    word_bytes = word_bits >> 3
    for i in range(np.uint64(num_chunks)):
        if count[i] == 0:
            continue
        if count[i] > BLOCK_VALUES or size[i] < word_bytes:
            return ~np.int64(i)
        width = read_word(data + start[i], word_bytes)
        if width > np.uint64(word_bits) or size[i] < word_bytes + np.int64(width) * BLOCK_BYTES_PER_BIT:
            return ~np.int64(i)
        unpack_block(data + start[i] + word_bytes, np.int64(width), word_bits, target)
        target += count[i] * word_bytes
    return 0


@inlined
def unpack_chunk(source, size, count, word_bits, width, target):
    """Unpacks a chunk of `size` bytes as `unpack_out_of_line` does; False if it is too short for `count` values."""
    word_bytes = word_bits >> 3
    block_bytes = width * BLOCK_BYTES_PER_BIT
    blocks = count // BLOCK_VALUES
    tail = count - blocks * BLOCK_VALUES
    left = size - blocks * block_bytes
    if left < 0:
        return False
    for _ in range(blocks):
        unpack_block(source, width, word_bits, target)
        source += block_bytes
        target += BLOCK_VALUES * word_bytes
    if tail == 0:
        return True
    if left == tail * word_bytes:
        copy_bytes(target, source, left)
    elif left >= block_bytes:
        unpack_block(source, width, word_bits, target)
    else:
        return False
    return True


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def unpack_out_of_line(data, starts, sizes, num_values, num_chunks, word_bits, width, target):
    """Unpacks chunks of any number of values: packed blocks, then a tail that is packed too or raw.

    The tail of t values is raw if exactly t words remain. `target` needs room for 1023 more words than values.
    """
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    count = pointer_i64(num_values)
    for i in range(np.uint64(num_chunks)):
        ahead = min(i + np.uint64(CHUNKS_AHEAD), np.uint64(num_chunks - 1))
        for line in range(0, min(size[ahead], BLOCK_BYTES_PER_BIT + 64), 64):
            prefetch(data + start[ahead] + line)
        if not unpack_chunk(data + start[i], size[i], count[i], word_bits, width, target):
            return ~np.int64(i)
        target += count[i] * (word_bits >> 3)
    return 0


@inlined
def _width(source, num_values, word_bits):
    """Bit width of the largest of `num_values` unsigned words."""
    seen = np.uint64(0)
    num_bytes = num_values * (word_bits >> 3)
    words = pointer_u64(source)
    for i in range(np.uint64(num_bytes >> 3)):
        seen |= words[i]
    for offset in range(num_bytes & ~7, num_bytes, word_bits >> 3):
        seen |= read_word(source + offset, word_bits >> 3)
    if word_bits <= 32:
        seen |= seen >> np.uint64(32)
    if word_bits <= 16:
        seen |= seen >> np.uint64(16)
    if word_bits <= 8:
        seen |= seen >> np.uint64(8)
    seen &= np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - word_bits)
    width = 0
    while seen != 0:
        width += 1
        seen >>= np.uint64(1)
    return width


@kernel("int64(int64, int64, int64, int64)")
def block_widths(source, num_values, word_bits, target):
    """Writes the width of each block of 1024 values (the last may be shorter) as int64; returns the largest."""
    widths = pointer_i64(target)
    largest = 0
    block = 0
    while num_values > 0:
        count = min(num_values, BLOCK_VALUES)
        width = _width(source, count, word_bits)
        widths[block] = width
        largest = max(largest, width)
        block += 1
        num_values -= count
        source += count * (word_bits >> 3)
    return largest


@kernel("void(int64, int64, int64, int64, int64, int64)")
def pack_inline(source, num_values, word_bits, widths, scratch, target):
    """Writes a width word and a packed block for each 1024 values, back to back, with the widths of `block_widths`.

    `scratch` is 1024 words, zero at entry, for an incomplete last block.
    """
    width = pointer_i64(widths)
    word_bytes = word_bits >> 3
    block = 0
    while num_values > 0:
        values = source
        if num_values < BLOCK_VALUES:
            copy_bytes(scratch, source, num_values * word_bytes)
            values = scratch
        write_word(target, word_bytes, width[block])
        _pack_block(values, width[block], word_bits, target + word_bytes)
        target += word_bytes + width[block] * BLOCK_BYTES_PER_BIT
        block += 1
        num_values -= BLOCK_VALUES
        source += BLOCK_VALUES * word_bytes


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def pack_out_of_line(source, num_values, num_chunks, word_bits, width, scratch, target):
    """Packs chunks of `num_values[i]` values that are back to back in `source`; see `unpack_out_of_line`.

    A tail is written raw if that takes no more bytes than a packed block. `scratch` is 1024 words.
    """
    count = pointer_i64(num_values)
    word_bytes = word_bits >> 3
    block_bytes = width * BLOCK_BYTES_PER_BIT
    for i in range(np.uint64(num_chunks)):
        left = count[i]
        while left > 0:
            values = source
            num_bytes = min(left, BLOCK_VALUES) * word_bytes
            if left < BLOCK_VALUES and num_bytes <= block_bytes:
                copy_bytes(target, source, num_bytes)
                target += num_bytes
            else:
                if left < BLOCK_VALUES:
                    _clear(scratch, BLOCK_VALUES * word_bytes)
                    copy_bytes(scratch, source, num_bytes)
                    values = scratch
                _pack_block(values, width, word_bits, target)
                target += block_bytes
            source += num_bytes
            left -= BLOCK_VALUES


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
