"""Rows of a leaf below structs and lists, from a file in memory: levels and values, out of their chunks in one pass.

All chunks are of mini-block pages with one layout. `lance_spark.layouts.mini_block.row_picker` makes the tables that
the kernels read. Rows may be in any order; those in ascending order find the chunk of the row before still unpacked.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES
from lance_spark.kernels.compression.fsst import MAX_SYMBOL_BYTES
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u16, prefetch
from lance_spark.kernels.layouts.mini_block import num_levels_of_chunk, part_of_chunk, parts_begin
from lance_spark.kernels.layouts.picked_levels import SCRATCH_LEVELS, keep_levels, place_of_row, unpack_levels
from lance_spark.kernels.layouts.single_rows import (
    BITS,
    FLAT,
    NO_LEVELS,
    chunk_of,
    chunk_values,
    copy_bit,
)
from lance_spark.kernels.takes import packed_value
from lance_spark.kernels.words import read_word, write_word

STRINGS = 8
"""Mini-block chunks of byte strings, beside the kinds of `single_rows`."""

_LINES = 8
"""Cache lines of the next chunk, with its levels, that are fetched meanwhile."""

MOST_SLOTS = 1 << 24
"""Of all rows; where they have more, the general way reads them."""

FORM_NUMBERS = 8
"""Numbers of a form: bytes of the sizes in a chunk; bits of a repetition and a definition level, as for
`single_rows.copy_values`; the kind of the values; their bytes, 0 for bits, of strings those of an offset; the highest
repetition level, and the highest definition level of a value; where the symbols of strings are in memory, or 0."""


@inlined
def _unpack_words(source, first, count, bits, width, target):
    """Unpacks values from number `first` on of a block of inline bit packing that begins with their width, `bits`."""
    for k in range(count):
        value = np.uint64(0)
        if bits > 0:
            value = packed_value(source + width, first + k, bits, 8 * width, BLOCK_VALUES // (8 * width))
        write_word(target + k * width, width, value)


@inlined
def _copy_words(source, num_bytes, held, first, count, kind, width, taken, values):
    """Copies values of fixed width from number `first` of `held` on behind `taken` others; False if there are fewer."""
    if kind == FLAT:
        if held * width > num_bytes:
            return False
        copy_bytes(values + taken * width, source + first * width, count * width)
    elif kind == BITS:
        if held > 8 * num_bytes:
            return False
        for k in range(count):
            copy_bit(source, first + k, values, taken + k)
    else:
        bits = np.int64(read_word(source, width)) if num_bytes >= width else np.int64(-1)
        if bits < 0 or bits > 8 * width or first + count > BLOCK_VALUES:
            return False
        if num_bytes < width + bits * BLOCK_BYTES_PER_BIT:
            return False
        target = values + taken * width
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
def _find_strings(source, num_bytes, held, first, count, offset_bytes, symbols, taken, room, found):
    """Finds strings from number `first` of `held` on; the most bytes that they can have, -1 if there are fewer."""
    if (held + 1) * offset_bytes > num_bytes:
        return np.int64(-1)
    out = pointer_i64(found)
    low = np.int64(read_word(source + first * offset_bytes, offset_bytes))
    begin = low
    for k in range(count):
        high = np.int64(read_word(source + (first + k + 1) * offset_bytes, offset_bytes))
        if low < 0 or low > high or high > num_bytes:
            return np.int64(-1)
        out[taken + k] = source + low
        out[room + taken + k] = high - low
        out[2 * room + taken + k] = symbols
        low = high
    return (low - begin) * (MAX_SYMBOL_BYTES if symbols else 1)


@inlined
def _take_values(source, num_bytes, held, first, count, form, taken, room, values):
    """Takes values of a chunk as its form says; the most bytes of strings, 0 of others, -1 if the chunk is broken."""
    of_form = pointer_i64(form)
    kind, width = of_form[3], of_form[4]
    if count == 0:
        return np.int64(0)
    if num_bytes < 0 or first < 0 or count < 0 or first + count > held:
        return np.int64(-1)
    if kind == STRINGS:
        return _find_strings(source, num_bytes, held, first, count, width, of_form[7], taken, room, values)
    is_valid = _copy_words(source, num_bytes, held, first, count, kind, width, taken, values)
    return np.int64(0) if is_valid else np.int64(-1)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def pick_rows(data, bases, chunks, num_chunks, form, rows, num_rows, defs, values, owners, totals):
    """Takes rows of a leaf without lists, each of which is one slot with a value.

    Args:
        data: the file.
        bases: int64[pages]: where the chunks of each page begin in the file.
        chunks: ``int64[5, num_chunks]``, a `ChunkTable`, whose chunks are within the file.
        form: ``int64[FORM_NUMBERS]``.
        rows: int64[num_rows].
        defs: uint16[num_rows], gets the definition levels; 0 if there are none.
        values: gets the values, bits must be 0 before; of strings ``int64[3, num_rows]``, as `locate_strings` finds
            them.
        owners: int64[num_rows], gets the page of each value; 0 if nobody asks.
        totals: int64[2], gets the number of values, and the most bytes that strings can have.

    Returns:
        The number of slots, or ``~i`` for the first row that is in no chunk, or whose chunk contradicts itself.
    """
    base = pointer_i64(bases)
    of_chunk = pointer_i64(chunks)
    ends = pointer_i64(chunks + 32 * num_chunks)
    of_form = pointer_i64(form)
    wanted = pointer_i64(rows)
    total = pointer_i64(totals)
    size_bytes, def_bits = of_form[0], of_form[2]
    chunk = most = np.int64(0)
    for i in range(num_rows):
        row = wanted[i]
        if row < 0 or num_chunks == 0 or row >= ends[num_chunks - 1]:
            return ~np.int64(i)
        chunk = chunk_of(ends, num_chunks, row, chunk)
        page, size, held = of_chunk[chunk], of_chunk[2 * num_chunks + chunk], of_chunk[3 * num_chunks + chunk]
        start = data + base[page] + of_chunk[num_chunks + chunk]
        place = row - (ends[chunk] - held)
        level, part, position = chunk_values(start, size, held, place, 1, size_bytes, def_bits)
        if level < 0:
            return ~np.int64(i)
        num_bytes, _ = part_of_chunk(start, size, part, part, size_bytes, position)
        bound = _take_values(start + position, num_bytes, held, place, np.int64(1), form, np.int64(i), num_rows, values)
        if bound < 0:
            return ~np.int64(i)
        most += bound
        if defs:
            pointer_u16(defs)[i] = np.uint16(level)
        if owners:
            pointer_i64(owners)[i] = page
    total[0] = num_rows
    total[1] = most
    return num_rows


@inlined
def _unpack_chunk(chunk, size, size_bytes, rep_bits, def_bits, scratch):
    """Unpacks the levels of a chunk of lists.

    Returns:
        (slots, number of parts of levels, offset of the values); -1 slots if the chunk contradicts itself.
    """
    num_level_parts = np.int64(2 if def_bits != NO_LEVELS else 1)
    position = parts_begin(size, num_level_parts, 1, size_bytes)
    if position < 0:
        return np.int64(-1), num_level_parts, np.int64(0)
    count = num_levels_of_chunk(chunk)
    for part in range(num_level_parts):
        num_bytes, end = part_of_chunk(chunk, size, part, num_level_parts, size_bytes, position)
        bits, levels = (def_bits, scratch + 2 * SCRATCH_LEVELS) if part else (rep_bits, scratch)
        if num_bytes < 0 or not unpack_levels(chunk + position, num_bytes, count, bits, levels):
            return np.int64(-1), num_level_parts, np.int64(0)
        position = end
    return count, num_level_parts, position


@inlined
def _ask_for_chunk(data, base, of_chunk, num_chunks, chunk):
    """Asks for the first cache lines of a chunk, which have its levels."""
    line = data + base[of_chunk[chunk]] + of_chunk[num_chunks + chunk]
    for k in range(min(_LINES, of_chunk[2 * num_chunks + chunk] >> 6)):
        prefetch(line + 64 * k)


@inlined
def _set_owners(owners, start, stop, page):
    """Notes the page of values, if somebody asks."""
    if owners:
        for k in range(start, stop):
            pointer_i64(owners)[k] = page


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, "
    "int64)"
)
def pick_list_rows(
    data, bases, chunks, begun, finished, num_chunks, form, rows, num_rows, scratch, room, reps, defs, values, owners,
    totals,
):  # fmt: skip
    """Takes rows of a leaf with lists; arguments as of `pick_rows`, and:

    Args:
        begun, finished: int64[num_chunks]: the rows that begin, and that end, up to the end of each chunk.
        scratch: ``uint16[2, SCRATCH_LEVELS]``.
        room: how many slots `reps`, `defs`, `values` and `owners` have room for.
        reps: uint16[room], gets the repetition levels.

    Returns:
        The number of slots. If there is no room for them, not all have been written. Negative if there is no such row,
        a chunk contradicts itself or its rows, or there are more than `MOST_SLOTS`.
    """
    base = pointer_i64(bases)
    of_chunk = pointer_i64(chunks)
    begun_to = pointer_i64(begun)
    finished_to = pointer_i64(finished)
    of_form = pointer_i64(form)
    wanted = pointer_i64(rows)
    total = pointer_i64(totals)
    size_bytes, rep_bits, def_bits = of_form[0], of_form[1], of_form[2]
    has_defs = def_bits != NO_LEVELS
    top, bound = np.uint16(of_form[5]), np.uint16(of_form[6])
    opened, start, num_level_parts = np.int64(-1), data, np.int64(0)
    near = picked = taken = most = count = position = block = seen = visible = page = size = held = np.int64(0)
    for i in range(num_rows):
        row = wanted[i]
        if row < 0 or num_chunks == 0 or row >= finished_to[num_chunks - 1]:
            return ~np.int64(i)
        near = chunk = chunk_of(begun_to, num_chunks, row, near)
        if i + 1 < num_rows and 0 <= wanted[i + 1] < finished_to[num_chunks - 1]:
            _ask_for_chunk(data, base, of_chunk, num_chunks, chunk_of(begun_to, num_chunks, wanted[i + 1], near))
        while True:
            before = begun_to[chunk - 1] if chunk > 0 else np.int64(0)
            if chunk != opened:
                page, size, held = of_chunk[chunk], of_chunk[2 * num_chunks + chunk], of_chunk[3 * num_chunks + chunk]
                start = data + base[page] + of_chunk[num_chunks + chunk]
                count, num_level_parts, position = _unpack_chunk(start, size, size_bytes, rep_bits, def_bits, scratch)
                if count < 0:
                    return ~np.int64(i)
            if chunk != opened or row - before < seen:
                block = seen = visible = np.int64(0)
            opened = chunk
            first = slot = np.int64(0)
            if chunk == near:
                slot, first, block, seen, visible = place_of_row(
                    scratch, count, row - before, has_defs, top, bound, block, seen, visible
                )
                if slot < 0 or slot == count:
                    return ~np.int64(i)
            stop, last, block, seen, visible = place_of_row(
                scratch, count, row + 1 - before, has_defs, top, bound, block, seen, visible
            )
            is_last = finished_to[chunk] > row
            if stop < slot or last < first or last > held or (stop < count and not is_last):
                return ~np.int64(i)
            if picked + stop - slot <= room:
                keep_levels(scratch, slot, stop, has_defs, reps, defs, picked)
                num_bytes, _ = part_of_chunk(start, size, num_level_parts, num_level_parts, size_bytes, position)
                source = start + position
                most_here = _take_values(source, num_bytes, held, first, last - first, form, taken, room, values)
                if most_here < 0:
                    return ~np.int64(i)
                most += most_here
                _set_owners(owners, taken, taken + last - first, page)
            picked, taken = picked + stop - slot, taken + last - first
            chunk += 1
            if picked > MOST_SLOTS or (chunk >= num_chunks and not is_last):
                return ~np.int64(i)
            if is_last:
                break
    total[0], total[1] = taken, most
    return picked
