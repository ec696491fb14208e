"""Values of fixed width, straight from the pages of a file in memory: one call for all pages of a column.

Pages are columns of an ``int64[7, num_pages]`` table. The rows are: where a buffer begins in the file, its bytes, the
same of a second buffer, the number of values, the bits of a definition level (-1 without levels; not 0 in version 2.0
where there is a bitmap of valid values), and whether the values are bit-packed. Everything that comes from the file is
checked. A negative result says that the pages contradict the format or the rows; the output is then undefined.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, unpack_block
from lance_spark.kernels.bits import append_bits
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8
from lance_spark.kernels.layouts.mini_block import chunk_of_word
from lance_spark.kernels.words import read_word, write_word


@inlined
def _is_outside(start, size, data_size):
    return start < 0 or size < 0 or start > data_size - size


@inlined
def _set_bit(target, place, bit):
    """Sets bit `place`; the bits before it are set, those after it in its byte become 0."""
    byte = pointer_u8(target + (place >> 3))
    if place & 7 == 0:
        byte[0] = np.uint8(bit)
    else:
        byte[0] |= np.uint8(bit << (place & 7))


@inlined
def _set_bits(target, place, count):
    """Sets `count` bits from `place` to 1, as `_set_bit`."""
    for i in range(count):
        _set_bit(target, place + i, 1)


@inlined
def _bit_at(source, place):
    return np.int64(pointer_u8(source + (place >> 3))[0] >> np.uint8(place & 7)) & 1


@inlined
def _part(chunk, size, size_at, size_bytes, position):
    """Bytes of a part of a chunk that begins at `position`; -1 if it leaves the chunk."""
    num_bytes = np.int64(read_word(chunk + size_at, size_bytes))
    return num_bytes if position + num_bytes <= size else np.int64(-1)


@inlined
def _copy_values(source, first, count, bits, taken, target):
    """Copies `count` values from place `first` to place `taken`."""
    if bits == 1:
        for i in range(count):
            _set_bit(target, taken + i, _bit_at(source, first + i))
    elif bits == 64 and count == 1:
        write_word(target + (taken << 3), 8, read_word(source + (first << 3), 8))
    else:
        width = bits >> 3
        copy_bytes(target + taken * width, source + first * width, count * width)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_mini_blocks(data, data_size, pages, num_pages, size_bytes, num_wanted, bits, target):
    """Decodes all `num_wanted` values of mini-block pages without levels (`lance_spark.kernels.layouts.mini_block`).

    Args:
        pages: the chunk words, the chunks, the number of values, and whether they are bit-packed.
        size_bytes: of a chunk word, and of the size of values in a chunk: 2 or 4.
        bits: of a value: 1, or a multiple of 8; 8 to 64, a power of two, of pages with inline bit packing.
        target: gets the values, back to back; needs room for 1024 more.

    Returns:
        The bytes of the chunks.
    """
    of_page = pointer_i64(pages)
    word_bytes = bits >> 3
    header = 2 + size_bytes
    taken = np.int64(0)
    num_read = np.int64(0)
    for page in range(num_pages):
        words, words_size = of_page[page], of_page[num_pages + page]
        chunk, chunks_size = of_page[2 * num_pages + page], of_page[3 * num_pages + page]
        left = of_page[4 * num_pages + page]
        is_packed = of_page[6 * num_pages + page]
        if _is_outside(words, words_size, data_size) or _is_outside(chunk, chunks_size, data_size):
            return -1
        count = words_size // size_bytes
        if count * size_bytes != words_size or left > num_wanted - taken:
            return -1
        chunks_end = data + chunk + chunks_size
        chunk += data
        num_read += chunks_size
        for i in range(count):
            size, num_values = chunk_of_word(data + words + i * size_bytes, size_bytes, left, i == count - 1)
            if num_values > left or chunk + size > chunks_end or size < header:
                return -1
            values_size = _part(chunk, size, 2, size_bytes, 8)
            if values_size < 0:
                return -1
            source = chunk + 8
            if is_packed:
                if values_size < word_bytes or num_values > BLOCK_VALUES:
                    return -1
                width = np.int64(read_word(source, word_bytes))
                if width < 0 or width > bits or values_size < word_bytes + width * BLOCK_BYTES_PER_BIT:
                    return -1
                unpack_block(source + word_bytes, width, bits, target + taken * word_bytes)
            else:
                if num_values > values_size * 8 // bits:
                    return -1
                if bits == 1:
                    append_bits(target, taken, source, num_values)
                else:
                    copy_bytes(target + taken * word_bytes, source, num_values * word_bytes)
            taken += num_values
            left -= num_values
            chunk += size
        if left > 0:
            return -1
    return num_read if taken == num_wanted else np.int64(-1)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def take_from_flat_pages(
    data, data_size, pages, num_pages, starts, stops, num_ranges, num_wanted, bits, target, validity
):
    """Copies ranges of values of flat pages of version 2.0.

    Args:
        pages: the values, the bits of their validity, and the number of values.
        starts, stops: int64[num_ranges]: ranges of values, ascending; `num_wanted` together.
        bits: of a value: 1, or a multiple of 8.
        target: gets the values, back to back.
        validity: gets a bit for each value, 1 if it is valid; address 0 if no page has such bits.

    Returns:
        The bytes of the values.
    """
    of_page = pointer_i64(pages)
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    at = np.int64(0)
    value = start[0] if num_ranges else np.int64(0)
    taken = np.int64(0)
    before = np.int64(0)
    for page in range(num_pages):
        count = of_page[4 * num_pages + page]
        end = before + count
        if at == num_ranges:
            break
        if value >= end:
            before = end
            continue
        values, values_size = of_page[page], of_page[num_pages + page]
        valid, valid_size = of_page[2 * num_pages + page], of_page[3 * num_pages + page]
        if _is_outside(values, values_size, data_size) or count > values_size * 8 // bits:
            return -1
        has_validity = of_page[5 * num_pages + page] != 0
        if has_validity and (validity == 0 or _is_outside(valid, valid_size, data_size) or count > valid_size * 8):
            return -1
        while at < num_ranges and value < end:
            last = min(stop[at], end)
            first = value - before
            num_taken = last - value
            if first < 0 or num_taken <= 0 or taken + num_taken > num_wanted:
                return -1
            _copy_values(data + values, first, num_taken, bits, taken, target)
            if has_validity:
                _copy_values(data + valid, first, num_taken, 1, taken, validity)
            elif validity:
                _set_bits(validity, taken, num_taken)
            taken += num_taken
            value = last
            if last == stop[at]:
                at += 1
                if at < num_ranges:
                    value = start[at]
        before = end
    if at < num_ranges or taken != num_wanted:
        return np.int64(-1)
    return num_wanted * bits // 8
