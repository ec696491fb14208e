"""Byte strings of some rows of a column without lists, from a file in memory: found and checked, then copied.

`lance_spark.layouts.in_memory.string_rows` makes the tables of pages and chunks that the kernels read.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.compression.fsst import ESCAPE, MAX_SYMBOL_BYTES, decode_value
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8, pointer_u64
from lance_spark.kernels.layouts.mini_block import part_of_chunk
from lance_spark.kernels.layouts.single_rows import (
    BARE,
    NO_LEVELS,
    NULLS,
    ZIPPED,
    chunk_of,
    chunk_values,
    values_of_chunk,
)
from lance_spark.kernels.words import read_word, write_offset

SYMBOLS_BYTES = 256 * (MAX_SYMBOL_BYTES + 1)
"""Of a table of symbols: u64[256], their bytes, and u8[256], their lengths, 0 for codes without a symbol."""


@inlined
def _string_at(chunk, size, count, place, size_bytes, level_bits, offset_bytes):
    """(level, start in the chunk, length) of string `place` of `count`; the level is -1 if the chunk is broken."""
    level, part, position = chunk_values(chunk, size, count, place, 1, size_bytes, level_bits)
    if level < 0:
        return level, np.int64(0), np.int64(0)
    num_bytes, _ = part_of_chunk(chunk, size, part, part, size_bytes, position)
    if num_bytes < 0 or (place + 2) * offset_bytes > num_bytes:
        return np.int64(-1), np.int64(0), np.int64(0)
    entry = chunk + position + place * offset_bytes
    low = np.int64(read_word(entry, offset_bytes))
    high = np.int64(read_word(entry + offset_bytes, offset_bytes))
    if low < 0 or low > high or high > num_bytes:
        return np.int64(-1), np.int64(0), np.int64(0)
    return level, position + low, high - low


@inlined
def _zipped_string_at(slots, size, place, control, index, index_bytes, length_bytes):
    """(level, start in the page, length) of a string of a full-zip page; the level is -1 if its bytes are broken."""
    low = np.int64(read_word(index + place * index_bytes, index_bytes))
    high = np.int64(read_word(index + (place + 1) * index_bytes, index_bytes))
    if low < 0 or high < low or high > size or high - low < control:
        return np.int64(-1), np.int64(0), np.int64(0)
    level = np.int64(read_word(slots + low, control)) if control > 0 else np.int64(0)
    head = control + (length_bytes if level == 0 else 0)
    if high - low < head:
        return np.int64(-1), np.int64(0), np.int64(0)
    length = np.int64(read_word(slots + low + control, length_bytes)) if level == 0 else np.int64(0)
    if length != high - low - head:
        return np.int64(-1), np.int64(0), np.int64(0)
    return level, low + head, length


@inlined
def _bare_string_at(ends, place, num_bytes, adjustment):
    """(level, start in the bytes, length) of a string of version 2.0; the level is -1 if its ends are broken.

    `adjustment` is added to ends of nulls.
    """
    low = np.int64(read_word(ends + 8 * (place - 1), 8)) if place > 0 else np.int64(0)
    high = np.int64(read_word(ends + 8 * place, 8))
    level = np.int64(high >= adjustment)
    low -= adjustment if low >= adjustment else np.int64(0)
    high -= adjustment if level else np.int64(0)
    if low < 0 or low > high or high > num_bytes:
        return np.int64(-1), np.int64(0), np.int64(0)
    return level, low, high - low


@inlined
def _located(data, pages, num_pages, chunks, num_chunks, chunk, row):
    """(level, where it is in memory, its bytes, where its symbols are) of the string of a row, which is in a chunk.

    The level is -1 if the chunk contradicts itself. Nulls have no bytes. Tables are those of `locate_strings`.
    """
    of_page, of_chunk = pointer_i64(pages), pointer_i64(chunks)
    ends = pointer_i64(chunks + 24 * num_chunks)
    first = ends[chunk - 1] if chunk > 0 else np.int64(0)
    page = of_chunk[chunk]
    level = np.int64(1)
    start = length = np.int64(0)
    at = data + of_chunk[num_chunks + chunk]
    size = of_chunk[2 * num_chunks + chunk]
    size_bytes, level_bits, offset_bytes = (
        of_page[num_pages + page], of_page[2 * num_pages + page], of_page[3 * num_pages + page],
    )  # fmt: skip
    if of_page[page] == ZIPPED:
        index_bytes = of_page[5 * num_pages + page]
        level, start, length = _zipped_string_at(
            at, size, row - first, size_bytes, data + level_bits, index_bytes, offset_bytes
        )  # fmt: skip
    elif of_page[page] == BARE:
        level, start, length = _bare_string_at(at, row - first, level_bits, offset_bytes)
        at = data + size_bytes
    elif of_page[page] != NULLS:
        level, start, length = _string_at(
            at, size, ends[chunk] - first, row - first, size_bytes, level_bits, offset_bytes
        )  # fmt: skip
    if level > 1:
        level = np.int64(-1)
    if level == 1:
        length = np.int64(0)
    return level, at + start, length, of_page[4 * num_pages + page]


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def copy_strings(found, room, num_rows, offset_bytes, offsets, target):
    """Copies the first `num_rows` strings that `locate_strings` found.

    Args:
        found: ``int64[3, room]``.
        offset_bytes: 4 or 8; 4 only if their most bytes are less than 2 GiB.
        offsets: num_rows + 1 offsets, gets 0 and the end of each string.
        target: room for their most bytes, and for `lance_spark.kernels.compression.fsst.SLACK_BYTES`.

    Returns:
        The bytes of all strings, or ``~i`` for the first one with a code without a symbol.
    """
    table = pointer_i64(found)
    at = np.int64(0)
    write_offset(offsets, offset_bytes, 0, at)
    for i in range(num_rows):
        source, length, symbols = table[i], table[room + i], table[2 * room + i]
        if symbols:
            length = decode_value(source, source + length, symbols, symbols + 256 * MAX_SYMBOL_BYTES, target + at)
            if length < 0:
                return ~np.int64(i)
        else:
            copy_bytes(target + at, source, length)
        at += length
        write_offset(offsets, offset_bytes, i + 1, at)
    return at


@inlined
def _is_symbol(symbol, size, text):
    """Whether the `size` bytes of a symbol, 1 to 8, are those at `text`, of which 8 can be read."""
    return (symbol ^ pointer_u64(text)[0]) << np.uint64(8 * (MAX_SYMBOL_BYTES - size)) == 0


@inlined
def _equals(source, length, symbols, text, num_bytes):
    """1 if a string is the text, 0 if not, -1 if it has a code without a symbol before the first other byte."""
    codes = pointer_u8(source)
    wanted = pointer_u8(text)
    if symbols == 0:
        if length != num_bytes:
            return np.int64(0)
        # Neighbours often begin alike.
        for i in range(length - 1, -1, -1):
            if codes[i] != wanted[i]:
                return np.int64(0)
        return np.int64(1)
    symbol = pointer_u64(symbols)
    sizes = pointer_u8(symbols + 256 * MAX_SYMBOL_BYTES)
    at = np.int64(0)
    i = np.int64(0)
    while i < length:
        code = codes[i]
        if code == ESCAPE:
            if i + 1 == length:
                return np.int64(-1)
            if at == num_bytes or codes[i + 1] != wanted[at]:
                return np.int64(0)
            at += 1
            i += 2
            continue
        size = np.int64(sizes[code])
        if size == 0:
            return np.int64(-1)
        if at + size > num_bytes or not _is_symbol(symbol[code], size, text + at):
            return np.int64(0)
        at += size
        i += 1
    return np.int64(1) if at == num_bytes else np.int64(0)


@inlined
def _plain_strings(data, pages, num_pages, chunks, num_chunks, chunk):
    """(where the strings of a mini-block chunk without levels are, their bytes), the offsets of all in front of them.

    (0, -1) for other chunks, and if it contradicts itself.
    """
    of_page, of_chunk = pointer_i64(pages), pointer_i64(chunks)
    page = of_chunk[chunk]
    if of_page[page] in (NULLS, ZIPPED, BARE) or of_page[2 * num_pages + page] != NO_LEVELS:
        return np.int64(0), np.int64(-1)
    ends = pointer_i64(chunks + 24 * num_chunks)
    count = ends[chunk] - (ends[chunk - 1] if chunk > 0 else np.int64(0))
    start, size = data + of_chunk[num_chunks + chunk], of_chunk[2 * num_chunks + chunk]
    values, num_bytes = values_of_chunk(start, size, count, of_page[num_pages + page])
    if num_bytes < (count + 1) * of_page[3 * num_pages + page]:
        return np.int64(0), np.int64(-1)
    return values, num_bytes


@inlined
def _plain_string(values, num_bytes, place, offset_bytes):
    """(0, where string `place` of `_plain_strings` is, its bytes); the first is -1 if it is not in the chunk."""
    low = np.int64(read_word(values + place * offset_bytes, offset_bytes))
    high = np.int64(read_word(values + (place + 1) * offset_bytes, offset_bytes))
    if low < 0 or low > high or high > num_bytes:
        return np.int64(-1), np.int64(0), np.int64(0)
    return np.int64(0), values + low, high - low


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def locate_strings(data, pages, num_pages, chunks, num_chunks, rows, num_rows, validity, found):
    """Finds the byte strings of some rows.

    Args:
        data: the file.
        pages: ``int64[6, num_pages]``: the kind of each page: `NULLS`, `ZIPPED`, or any other for mini-blocks; bytes of
            the sizes in its chunks, or of its control words; the bits of a level as for `single_rows.copy_values`, or
            where the index of its rows begins; bytes of an offset or length (4 or 8); where the symbols are in memory
            (`SYMBOLS_BYTES`), 0 if the strings are not compressed; bytes of an entry of the index, which is within the
            file and has one more than the page has rows. Of `BARE` pages, whose chunk has u64 ends, the next three are
            where the bytes begin, how many they are, and what is added to the ends of nulls.
        chunks: as for `single_rows.copy_values`.
        rows: int64[num_rows], in any order.
        validity: as for `single_rows.copy_values`.
        found: ``int64[3, num_rows]``, gets where each string is in memory, its bytes, and where its symbols are. Nulls
            have no bytes.

    Returns:
        The most bytes that the strings can have, or ``~i`` for the first row that is in no chunk, or whose chunk
        contradicts itself.
    """
    of_page, of_chunk = pointer_i64(pages), pointer_i64(chunks)
    ends = pointer_i64(chunks + 24 * num_chunks)
    wanted = pointer_i64(rows)
    bits = pointer_u8(validity)
    out = pointer_i64(found)
    most = np.int64(0)
    chunk = values = np.int64(0)
    known = num_bytes = np.int64(-1)
    for i in range(num_rows):
        row = wanted[i]
        if row < 0 or num_chunks == 0 or row >= ends[num_chunks - 1]:
            return ~np.int64(i)
        chunk = chunk_of(ends, num_chunks, row, chunk)
        if chunk != known:
            values, num_bytes = _plain_strings(data, pages, num_pages, chunks, num_chunks, chunk)
            known = chunk
        if num_bytes >= 0:
            # Neighbours are mostly in one chunk, whose header is read once.
            page, first = of_chunk[chunk], ends[chunk - 1] if chunk > 0 else np.int64(0)
            level, source, length = _plain_string(values, num_bytes, row - first, of_page[3 * num_pages + page])
            symbols = of_page[4 * num_pages + page]
        else:
            level, source, length, symbols = _located(data, pages, num_pages, chunks, num_chunks, chunk, row)
        if level < 0:
            return ~np.int64(i)
        if level == 0 and validity:
            bits[i >> 3] |= np.uint8(1 << (i & 7))
        out[i] = source
        out[num_rows + i] = length
        out[2 * num_rows + i] = symbols
        most += length * MAX_SYMBOL_BYTES if symbols else length
    return most


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def find_strings(data, pages, num_pages, chunks, num_chunks, rows, num_rows, text, num_bytes, places):
    """Finds the rows of some whose byte string is a text, without copying strings.

    Args:
        data .. num_rows: as for `locate_strings`.
        text: `num_bytes` bytes, and 8 more that can be read.
        places: int64[num_rows], gets where the rows are among `rows`. Nulls are not among them.

    Returns:
        How many they are, or ``~i`` as `locate_strings`, and for a string with a code without a symbol.
    """
    ends = pointer_i64(chunks + 24 * num_chunks)
    wanted = pointer_i64(rows)
    out = pointer_i64(places)
    of_page, of_chunk = pointer_i64(pages), pointer_i64(chunks)
    num_found = np.int64(0)
    chunk = np.int64(0)
    known = np.int64(-1)
    values = first = offset_bytes = symbols = np.int64(0)
    chunk_bytes = np.int64(-1)
    for i in range(num_rows):
        row = wanted[i]
        if row < 0 or num_chunks == 0 or row >= ends[num_chunks - 1]:
            return ~np.int64(i)
        chunk = chunk_of(ends, num_chunks, row, chunk)
        if chunk != known:
            known = chunk
            values, chunk_bytes = _plain_strings(data, pages, num_pages, chunks, num_chunks, chunk)
            first = ends[chunk - 1] if chunk > 0 else np.int64(0)
            offset_bytes = of_page[3 * num_pages + of_chunk[chunk]]
            symbols = of_page[4 * num_pages + of_chunk[chunk]]
        if chunk_bytes >= 0:
            level, source, length = _plain_string(values, chunk_bytes, row - first, offset_bytes)
        else:
            level, source, length, symbols = _located(data, pages, num_pages, chunks, num_chunks, chunk, row)
        if level < 0:
            return ~np.int64(i)
        if level == 1:
            continue
        is_equal = _equals(source, length, symbols, text, num_bytes)
        if is_equal < 0:
            return ~np.int64(i)
        out[num_found] = i
        num_found += is_equal
    return num_found
