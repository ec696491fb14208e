"""Values of some rows of a column without lists, from a file in memory: found, checked and copied in one call.

`lance_spark.layouts.in_memory.single_rows` makes the tables of pages and chunks that the kernel reads.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, unpack_block
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8
from lance_spark.kernels.layouts.mini_block import chunk_of_word, num_levels_of_chunk, part_of_chunk, parts_begin
from lance_spark.kernels.layouts.picked_levels import LEVEL_BITS, RUN_LEVELS
from lance_spark.kernels.takes import out_of_line_value, packed_value
from lance_spark.kernels.words import read_word, write_word

PACKED = 0
"""Mini-block chunks of inline bit packing."""

FLAT = 1
"""Mini-block chunks of values of whole bytes."""

BITS = 2
"""Mini-block chunks of bits."""

ZIPPED = 3
"""Full-zip values, each behind its control word."""

BARE = 4
"""Values side by side, or bits; bits that say which are valid are elsewhere in the file (version 2.0)."""

RUNS = 5
"""Mini-block chunks of runs."""

NULLS = 6
"""Nulls only, without bytes."""

CONSTANT = 7
"""One value of up to 8 bytes, which is in the table of pages."""

NO_LEVELS = -1

NO_VALIDITY = -1

PACKED_LEVELS = -2
"""Levels in one block of inline bit packing; more than that have a width of their own."""


@inlined
def chunk_of(ends, num_chunks, row, near):
    """The first chunk that ends behind a row, which is in one; found at once if it is `near` or one of the next."""
    low = np.int64(0)
    high = num_chunks - 1
    if near == 0 or ends[near - 1] <= row:
        low = near
        for chunk in range(near, min(near + 4, num_chunks)):
            if ends[chunk] > row:
                return chunk
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] > row:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def _unpacked(source, place, bits, width):
    # With a constant width, divisions are shifts.
    if width == 8:
        return packed_value(source, place, bits, 64, BLOCK_VALUES // 64)
    if width == 4:
        return packed_value(source, place, bits, 32, BLOCK_VALUES // 32)
    if width == 2:
        return packed_value(source, place, bits, 16, BLOCK_VALUES // 16)
    return packed_value(source, place, bits, 8, BLOCK_VALUES // 8)


@inlined
def _packed(source, num_bytes, place, width):
    """(value, 1) number `place` of a block of inline bit packing of words of `width` bytes; (0, 0) if it is broken."""
    bits = np.int64(read_word(source, width)) if num_bytes >= width else np.int64(-1)
    if bits < 0 or bits > 8 * width or place >= BLOCK_VALUES or num_bytes < width + bits * BLOCK_BYTES_PER_BIT:
        return np.uint64(0), np.int64(0)
    if bits == 0:
        return np.uint64(0), np.int64(1)
    return _unpacked(source + width, place, bits, width), np.int64(1)


@inlined
def _zipped_value(slots, place, width, control, target):
    """Copies a value of a full-zip page; returns its level."""
    source = slots + place * (control + width)
    level = np.int64(0)
    for byte in range(control):
        level |= np.int64(pointer_u8(source)[byte]) << (8 * byte)
    copy_bytes(target, source + control, width)
    return level


@inlined
def _bit_at(source, place):
    return (pointer_u8(source)[place >> 3] >> np.uint8(place & 7)) & np.uint8(1)


@inlined
def copy_bit(source, place, target, to):
    """Copies bit `place` to bit `to`, which is 0."""
    pointer_u8(target)[to >> 3] |= np.uint8(_bit_at(source, place) << np.uint8(to & 7))


@inlined
def _bare_value(source, place, width, valid_bits, values, target):
    """Copies a value, as `_chunk_value`; returns 1 if its bit at `valid_bits` is 0."""
    if width == 0:
        copy_bit(source, place, values, target)
    else:
        copy_bytes(target, source + place * width, width)
    return np.int64(1) - np.int64(_bit_at(valid_bits, place)) if valid_bits else np.int64(0)


@inlined
def _constant_value(kind, value, width, values, target):
    """Writes the value of a page without bytes, as `_chunk_value`; returns its level."""
    if kind == CONSTANT:
        if width > 0:
            write_word(target, width, np.uint64(value))
        elif value:
            pointer_u8(values)[target >> 3] |= np.uint8(1 << (target & 7))
        return np.int64(0)
    for byte in range(width):
        pointer_u8(target)[byte] = np.uint8(0)
    return np.int64(1)


@inlined
def _run_at(lengths, num_runs, place):
    """The run with value `place`; `num_runs` if there is none."""
    length = pointer_u8(lengths)
    run = np.int64(0)
    first = np.int64(0)
    while run + 16 <= num_runs:
        values = np.int64(0)
        for i in range(16):
            values += np.int64(length[run + i])
        if first + values > place:
            break
        first += values
        run += 16
    while run < num_runs:
        first += np.int64(length[run])
        if first > place:
            break
        run += 1
    return run


@inlined
def _level_of_run(source, num_bytes, place):
    """(level, 1) number `place` of a block of runs (size of levels, levels, lengths); (0, 0) if it is broken."""
    size = np.int64(read_word(source, 8)) if num_bytes >= 8 else np.int64(-1)
    num_runs = num_bytes - 8 - size
    if size < 0 or num_runs < 0 or num_runs * (LEVEL_BITS // 8) != size:
        return np.uint64(0), np.int64(0)
    run = _run_at(source + 8 + size, num_runs, place)
    if run == num_runs:
        return np.uint64(0), np.int64(0)
    return read_word(source + 8 + run * (LEVEL_BITS // 8), LEVEL_BITS // 8), np.int64(1)


@inlined
def chunk_values(chunk, size, count, place, num_sizes, size_bytes, level_bits):
    """The level of value `place` of `count` in a mini-block chunk, and where its values begin.

    Args:
        num_sizes: the number of parts of values.

    Returns:
        (level, number of parts of levels, offset of the first part of values); the level is -1 if the chunk contradicts
        itself. Whether the parts of values end in the chunk is not checked.
    """
    num_level_parts = np.int64(level_bits != NO_LEVELS)
    position = parts_begin(size, num_level_parts, num_sizes, size_bytes)
    if position < 0:
        return np.int64(-1), num_level_parts, np.int64(0)
    level = np.uint64(0)
    if num_level_parts:
        num_bytes, end = part_of_chunk(chunk, size, 0, 1, size_bytes, position)
        if num_levels_of_chunk(chunk) != count or num_bytes < 0:
            return np.int64(-1), num_level_parts, np.int64(0)
        if level_bits == PACKED_LEVELS:
            level, is_valid = _packed(chunk + position, num_bytes, place, LEVEL_BITS // 8)
        elif level_bits == RUN_LEVELS:
            level, is_valid = _level_of_run(chunk + position, num_bytes, place)
        else:
            level, is_valid = out_of_line_value(chunk + position, num_bytes, count, place, LEVEL_BITS, level_bits)
        if not is_valid:
            return np.int64(-1), num_level_parts, np.int64(0)
        position = end
    return np.int64(level), num_level_parts, position


@inlined
def _chunk_value(chunk, size, count, place, kind, width, size_bytes, level_bits, values, target):
    """Copies value `place` of `count` in a mini-block chunk; returns its level, -1 if the chunk contradicts itself.

    A bit goes to bit `target` of `values`, any other value to the address `target`.
    """
    num_sizes = 2 if kind == RUNS else 1
    level, part, position = chunk_values(chunk, size, count, place, num_sizes, size_bytes, level_bits)
    if level < 0:
        return level
    num_bytes, lengths = part_of_chunk(chunk, size, part, part, size_bytes, position)
    if num_bytes < 0:
        return np.int64(-1)
    source = chunk + position
    if kind == BITS:
        if count > num_bytes * 8:
            return np.int64(-1)
        copy_bit(source, place, values, target)
    elif kind == FLAT:
        if count > num_bytes // width:
            return np.int64(-1)
        copy_bytes(target, source + place * width, width)
    elif kind == RUNS:
        num_runs, _ = part_of_chunk(chunk, size, part + 1, part, size_bytes, lengths)
        if num_runs < 0 or num_bytes < num_runs * width:
            return np.int64(-1)
        run = _run_at(chunk + lengths, num_runs, place)
        if run == num_runs:
            return np.int64(-1)
        write_word(target, width, read_word(source + run * width, width))
    else:
        value, is_valid = _packed(source, num_bytes, place, width)
        if not is_valid:
            return np.int64(-1)
        write_word(target, width, value)
    return level


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def copy_values(data, pages, num_pages, chunks, num_chunks, rows, targets, num_rows, width, values, validity):
    """Copies the values of some rows of a column.

    Args:
        data: the file.
        pages: ``int64[3, num_pages]``: the kind of each page; bytes of the sizes in its chunks (2 or 4), or of its
            control words (up to 4), or where the bits of valid values begin, or `NO_VALIDITY`, or its one value; the
            bits of a definition level in its chunks, `NO_LEVELS`, `PACKED_LEVELS` or `RUN_LEVELS`.
        chunks: ``int64[4, num_chunks]``: the page of each chunk, its start in the file and its size, which are within
            the file, and the rows up to its end, ascending. A page of other kinds is one chunk, with all of its rows.
        rows: int64[num_rows], in any order.
        targets: int64[num_rows]: the place of each row in `values`; 0 for the order of `rows`.
        width: bytes of a value: 1, 2, 4 or 8 if pages are packed or have runs or one value; 0 for bits.
        values: where the values go; bits must be 0 before.
        validity: a bit for each value, all 0 before; those of values that are not null are set. 0 if no page has
            levels or bits of valid values.

    Returns:
        The number of nulls, or ``~i`` for the first row that is in no chunk, or whose chunk contradicts itself.
    """
    of_page = pointer_i64(pages)
    of_chunk = pointer_i64(chunks)
    ends = pointer_i64(chunks + 24 * num_chunks)
    wanted = pointer_i64(rows)
    order = pointer_i64(targets)
    bits = pointer_u8(validity)
    num_nulls = np.int64(0)
    chunk = np.int64(0)
    for i in range(num_rows):
        row = wanted[i]
        if row < 0 or num_chunks == 0 or row >= ends[num_chunks - 1]:
            return ~np.int64(i)
        chunk = chunk_of(ends, num_chunks, row, chunk)
        first = ends[chunk - 1] if chunk > 0 else np.int64(0)
        page = of_chunk[chunk]
        start = data + of_chunk[num_chunks + chunk]
        size = of_chunk[2 * num_chunks + chunk]
        kind = of_page[page]
        size_bytes = of_page[num_pages + page]
        place = order[i] if targets else np.int64(i)
        target = values + place * width if width > 0 else place
        if kind == ZIPPED:
            level = _zipped_value(start, row - first, width, size_bytes, target)
        elif kind == BARE:
            valid_bits = np.int64(0) if size_bytes == NO_VALIDITY else data + size_bytes
            level = _bare_value(start, row - first, width, valid_bits, values, target)
        elif kind in (NULLS, CONSTANT):
            level = _constant_value(kind, size_bytes, width, values, target)
        else:
            count = ends[chunk] - first
            level_bits = of_page[2 * num_pages + page]
            level = _chunk_value(
                start, size, count, row - first, kind, width, size_bytes, level_bits, values, target
            )  # fmt: skip
        if level < 0 or level > 1:
            return ~np.int64(i)
        if level == 0 and not validity:
            continue
        if level == 0:
            bits[place >> 3] |= np.uint8(1 << (place & 7))
        else:
            num_nulls += 1
    return num_nulls


@inlined
def values_of_chunk(chunk, size, count, size_bytes):
    """(where the values begin, their bytes) in a mini-block chunk without levels; (0, -1) if it contradicts itself."""
    begin = parts_begin(size, 0, 1, size_bytes)
    if begin < 0:
        return np.int64(0), np.int64(-1)
    num_bytes, _ = part_of_chunk(chunk, size, 0, 0, size_bytes, begin)
    return (chunk + begin, num_bytes) if num_bytes >= 0 else (np.int64(0), np.int64(-1))


@inlined
def _unpacked_range(source, num_bytes, place, wanted, width, target, block):
    """Copies `wanted` values of a packed block from number `place` on; returns 0, -1 if the block is broken."""
    bits = np.int64(read_word(source, width)) if num_bytes >= width else np.int64(-1)
    if bits < 0 or bits > 8 * width or num_bytes < width + bits * BLOCK_BYTES_PER_BIT:
        return np.int64(-1)
    unpack_block(source + width, bits, 8 * width, block)
    copy_bytes(target, block + place * width, wanted * width)
    return np.int64(0)


@inlined
def _runs_of_range(chunk, size, size_bytes, place, wanted, width, target):
    """Copies `wanted` values of a chunk of runs from number `place` on; 0, -1 if the chunk contradicts itself."""
    position = parts_begin(size, 0, 2, size_bytes)
    if position < 0:
        return np.int64(-1)
    num_bytes, lengths = part_of_chunk(chunk, size, 0, 0, size_bytes, position)
    if num_bytes < 0:
        return np.int64(-1)
    num_runs, _ = part_of_chunk(chunk, size, 1, 0, size_bytes, lengths)
    if num_runs < 0 or num_bytes < num_runs * width:
        return np.int64(-1)
    length = pointer_u8(chunk + lengths)
    stop = place + wanted
    row = np.int64(0)
    for run in range(num_runs):
        after = row + np.int64(length[run])
        if after > place:
            value = read_word(chunk + position + run * width, width)
            for at in range(max(row, place), min(after, stop)):
                write_word(target + (at - place) * width, width, value)
        row = after
        if row >= stop:
            return np.int64(0)
    return np.int64(-1)


@inlined
def _copy_of_chunk(kind, start, size, count, size_bytes, place, wanted, width, target, block):
    """Copies `wanted` of the `count` values of a chunk without levels from number `place` on; 0, -1 if it contradicts
    itself, or is of another kind than PACKED, FLAT and RUNS.
    """
    if kind == RUNS:
        return _runs_of_range(start, size, size_bytes, place, wanted, width, target) if width <= 8 else np.int64(-1)
    source, num_bytes = values_of_chunk(start, size, count, size_bytes)
    if kind == PACKED:
        if count > BLOCK_VALUES:
            return np.int64(-1)
        return _unpacked_range(source, num_bytes, place, wanted, width, target, block)
    if kind != FLAT or num_bytes < 0 or count > num_bytes // width:
        return np.int64(-1)
    copy_bytes(target, source + place * width, wanted * width)
    return np.int64(0)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def copy_range(data, pages, num_pages, chunks, num_chunks, first, num_rows, width, values, block):
    """Copies the values of rows side by side, of pages that are packed, flat, bare, or have runs or one value, and no
    nulls.

    Args:
        data, pages, num_pages, chunks, num_chunks: as for `copy_values`.
        first: the first row.
        width: bytes of a value: not 0.
        values: where the values go.
        block: room for 1024 values.

    Returns:
        0; -1 if there are no such rows, their pages are of other kinds, or a chunk contradicts itself.
    """
    of_page = pointer_i64(pages)
    of_chunk = pointer_i64(chunks)
    ends = pointer_i64(chunks + 24 * num_chunks)
    if first < 0 or num_rows < 1 or num_chunks == 0 or num_rows > ends[num_chunks - 1] - first:
        return np.int64(-1)
    chunk = chunk_of(ends, num_chunks, first, np.int64(0))
    taken = np.int64(0)
    while taken < num_rows:
        start_row = ends[chunk - 1] if chunk > 0 else np.int64(0)
        page = of_chunk[chunk]
        start = data + of_chunk[num_chunks + chunk]
        size = of_chunk[2 * num_chunks + chunk]
        kind = of_page[page]
        size_bytes = of_page[num_pages + page]
        count = ends[chunk] - start_row
        place = first + taken - start_row
        wanted = min(count - place, num_rows - taken)
        target = values + taken * width
        if kind == BARE and size_bytes == NO_VALIDITY:
            copy_bytes(target, start + place * width, wanted * width)
        elif kind == CONSTANT:
            for i in range(wanted):
                write_word(target + i * width, width, np.uint64(size_bytes))
        else:
            is_plain = of_page[2 * num_pages + page] == NO_LEVELS
            if (
                not is_plain
                or _copy_of_chunk(kind, start, size, count, size_bytes, place, wanted, width, target, block) < 0
            ):
                return np.int64(-1)
        taken += wanted
        chunk += 1
    return np.int64(0)


@kernel("int64(" + ", ".join(["int64"] * 13) + ")")
def copy_run(
    data, size, kind, size_bytes, words, words_size, chunks, chunks_size, num_values, first, num_rows, width, out
):
    """Copies the values of rows side by side of one page: of mini-blocks without levels, or of one value.

    Args:
        data, size: the file.
        kind: PACKED, FLAT, RUNS or CONSTANT.
        size_bytes: of the sizes in a chunk, and of its word; the value of a page of one.
        words, words_size, chunks, chunks_size: where both are in the file, and their bytes.
        num_values: of the page.
        first: the first row.
        width: bytes of a value: not 0.
        out: where the values go, with room for 1024 values behind them.

    Returns:
        0; -1 if the page has no such rows, is of another kind, or contradicts itself or the file.
    """
    if words < 0 or words_size < 0 or words > size - words_size:
        return np.int64(-1)
    if chunks < 0 or chunks_size < 0 or chunks > size - chunks_size:
        return np.int64(-1)
    if first < 0 or num_rows < 1 or num_rows > num_values - first:
        return np.int64(-1)
    if kind == CONSTANT:
        for i in range(num_rows):
            write_word(out + i * width, width, np.uint64(size_bytes))
        return np.int64(0)
    if size_bytes not in (2, 4):
        return np.int64(-1)
    count = words_size // size_bytes
    start, end = chunks, chunks + chunks_size
    left = num_values
    taken = np.int64(0)
    for i in range(count):
        word = data + words + i * size_bytes
        num_bytes, in_chunk = chunk_of_word(word, size_bytes, left, i == count - 1)
        if in_chunk > left or start + num_bytes > end:
            return np.int64(-1)
        place = first + taken - (num_values - left)
        if taken < num_rows and place < in_chunk:
            wanted = min(in_chunk - place, num_rows - taken)
            target, block = out + taken * width, out + num_rows * width
            at = data + start
            if _copy_of_chunk(kind, at, num_bytes, in_chunk, size_bytes, place, wanted, width, target, block) < 0:
                return np.int64(-1)
            taken += wanted
        left -= in_chunk
        start += num_bytes
    return np.int64(0) if left == 0 and words_size == count * size_bytes else np.int64(-1)
