"""Rows of a column, in any order, out of the bytes of its pages: levels, and values or the places of byte strings.

`lance_spark.layouts.prepared` makes the tables that the kernel reads. The bytes are a mapped file, or pieces of one.
Whatever a page or chunk says about itself is compared with the bytes that are there.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.compression.fsst import MAX_SYMBOL_BYTES, decode_value
from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8, pointer_u16
from lance_spark.kernels.layouts.mini_block import num_levels_of_chunk, part_of_chunk, parts_begin
from lance_spark.kernels.layouts.pick_levels import (
    NO_LEVELS,
    SCRATCH_LEVELS,
    copy_levels,
    keep_levels,
    place_of_row,
    unpack_levels,
)
from lance_spark.kernels.layouts.pick_values import BITS, RUNS, STRINGS, copy_bit, locate_string, take_values
from lance_spark.kernels.words import read_word, write_offset

CHUNKS = 0
"""A mini-block page."""

ZIPPED = 1
"""A full-zip page: one chunk with all of its rows."""

BARE = 2
"""Values back to back, without levels; validity, or the bytes of strings, are elsewhere in the file (version 2.0)."""

REPEATED = 3
"""One value for all rows, or nulls only."""

PAGE_NUMBERS = 9
"""Numbers of a page, ``int64[PAGE_NUMBERS, num_pages]``:

- its layout: CHUNKS, ZIPPED, BARE or REPEATED;
- the kind of its values (`pick_values`), and the bytes of one, 0 for bits; of strings those of an offset or length;
- CHUNKS: the bytes of a size in a chunk; ZIPPED: those of a control word;
- the bits of a repetition and a definition level, or what stands for them (`pick_levels`);
- where the symbols of strings are in memory, or 0; REPEATED: where the value is in memory, 0 for nulls;
- ZIPPED: where the index of rows begins in the data, -1 without one; BARE: the same of validity bits, or of strings;
- ZIPPED: the bytes of an entry of the index; BARE: the bytes of all strings.

More than the bytes of all strings is added to the ends of null strings (BARE): by how much is in place of the bits of a
repetition level.
"""

LAYOUT, KIND, WIDTH, SIZE_BYTES, REP_BITS, DEF_BITS, SYMBOLS, OTHER, OTHER_BYTES = range(PAGE_NUMBERS)

MOST_SLOTS = 1 << 24
"""Maximum slots of all rows; where lists have more, whole chunks are decoded."""

SYMBOLS_BYTES = 256 * (MAX_SYMBOL_BYTES + 1)
"""Size of a table of symbols: u64[256], their bytes, and u8[256], their lengths, 0 for codes without a symbol."""


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
def _is_outside(start, size, data_size):
    return start < 0 or size < 0 or start > data_size - size


@inlined
def _number(pages, num_pages, page, name):
    return pointer_i64(pages)[name * num_pages + page]


@inlined
def _chunk_values(chunk, size, part, position, held, first, count, pages, num_pages, page, taken, room, values):
    """Takes values of a chunk, whose part number `part` they are; the most bytes of strings, -1 if it is broken."""
    if count == 0:
        return np.int64(0)
    size_bytes, kind = _number(pages, num_pages, page, SIZE_BYTES), _number(pages, num_pages, page, KIND)
    num_bytes, after = part_of_chunk(chunk, size, part, part, size_bytes, position)
    if num_bytes < 0 or first < 0 or count < 0 or first > held - count:
        return np.int64(-1)
    num_runs = np.int64(0)
    if kind == RUNS:
        num_runs, _ = part_of_chunk(chunk, size, part + 1, part, size_bytes, after)
        if num_runs < 0:
            return np.int64(-1)
    return take_values(
        chunk + position, num_bytes, chunk + after, num_runs, held, first, count, kind,
        _number(pages, num_pages, page, WIDTH), _number(pages, num_pages, page, SYMBOLS), taken, room, values,
    )  # fmt: skip


@inlined
def _num_value_parts(pages, num_pages, page):
    return np.int64(2 if _number(pages, num_pages, page, KIND) == RUNS else 1)


@inlined
def _values_of_chunk(chunk, size, held, first, count, pages, num_pages, page, taken, room, defs, values):
    """Takes values side by side of a chunk without lists, and their levels.

    The most bytes of strings; -1 if the chunk is broken.
    """
    size_bytes, def_bits = _number(pages, num_pages, page, SIZE_BYTES), _number(pages, num_pages, page, DEF_BITS)
    part = np.int64(def_bits != NO_LEVELS)
    position = parts_begin(size, part, _num_value_parts(pages, num_pages, page), size_bytes)
    if position < 0:
        return np.int64(-1)
    if part:
        num_bytes, end = part_of_chunk(chunk, size, 0, 1, size_bytes, position)
        if num_levels_of_chunk(chunk) != held or num_bytes < 0:
            return np.int64(-1)
        if not copy_levels(chunk + position, num_bytes, held, first, count, def_bits, defs + 2 * taken):
            return np.int64(-1)
        position = end
    elif defs:
        for k in range(taken, taken + count):
            pointer_u16(defs)[k] = np.uint16(0)
    return _chunk_values(
        chunk, size, part, position, held, first, count, pages, num_pages, page, taken, room, values
    )  # fmt: skip


@inlined
def _slots_of_row(data, data_size, size, held, place, pages, num_pages, page):
    """(first byte, end) of the slots of row `place` of a full-zip page; the end is -1 if the page is broken."""
    index, control = _number(pages, num_pages, page, OTHER), _number(pages, num_pages, page, SIZE_BYTES)
    if index < 0:
        stride = control + _number(pages, num_pages, page, WIDTH)
        if stride <= 0 or place >= size // stride:
            return np.int64(0), np.int64(-1)
        return place * stride, place * stride + stride
    width = _number(pages, num_pages, page, OTHER_BYTES)
    if _is_outside(index, (held + 1) * width, data_size):
        return np.int64(0), np.int64(-1)
    entries = data + index
    low = np.int64(read_word(entries + place * width, width))
    high = np.int64(read_word(entries + (place + 1) * width, width))
    # An index whose position is wrong by some entries begins or ends with others.
    ends = np.int64(read_word(entries, width)), np.int64(read_word(entries + held * width, width))
    if ends[0] != 0 or ends[1] != size or low < 0 or high < low or high > size:
        return np.int64(0), np.int64(-1)
    return low, high


@inlined
def _zipped_value(slot, left, level, pages, num_pages, page, taken, room, values):
    """(bytes of a slot behind its control word, most bytes of its string); (-1, 0) if it leaves the row.

    Nulls have a value of fixed width, and neither the length nor the bytes of a string.
    """
    width = _number(pages, num_pages, page, WIDTH)
    if _number(pages, num_pages, page, KIND) != STRINGS:
        if width > left:
            return np.int64(-1), np.int64(0)
        if taken < room:
            copy_bytes(values + taken * width, slot, width)
        return width, np.int64(0)
    head = width if level == 0 else np.int64(0)
    if head > left:
        return np.int64(-1), np.int64(0)
    length = np.int64(read_word(slot, width)) if level == 0 else np.int64(0)
    if length < 0 or length > left - head:
        return np.int64(-1), np.int64(0)
    most = locate_string(values, room, taken, slot + head, length, _number(pages, num_pages, page, SYMBOLS))
    return head + length, most


@inlined
def _zipped_row(
    data, data_size, start, size, held, place, max_rep, visible, pages, num_pages, page, picked, taken, room, reps,
    defs, values,
):  # fmt: skip
    """(slots, values, most bytes) of row `place` of a full-zip page; -1 slots if it is broken."""
    low, high = _slots_of_row(data, data_size, size, held, place, pages, num_pages, page)
    control, bits = _number(pages, num_pages, page, SIZE_BYTES), _number(pages, num_pages, page, DEF_BITS)
    slots = count = total = np.int64(0)
    while low < high:
        if high - low < control:
            return np.int64(-1), np.int64(0), np.int64(0)
        word = np.int64(read_word(data + start + low, control)) if control > 0 else np.int64(0)
        low += control
        rep, level = word >> bits, word & ((np.int64(1) << bits) - 1)
        # Where a row begins, and nowhere else, the repetition level is the highest.
        if (rep == max_rep) != (slots == 0):
            return np.int64(-1), np.int64(0), np.int64(0)
        if picked + slots < room:
            if reps:
                pointer_u16(reps)[picked + slots] = np.uint16(rep)
            if defs:
                pointer_u16(defs)[picked + slots] = np.uint16(level)
        if level <= visible:
            num_bytes, most = _zipped_value(
                data + start + low, high - low, level, pages, num_pages, page, taken + count, room, values
            )  # fmt: skip
            if num_bytes < 0:
                return np.int64(-1), np.int64(0), np.int64(0)
            low += num_bytes
            count += 1
            total += most
        slots += 1
    return (slots, count, total) if slots > 0 else (np.int64(-1), np.int64(0), np.int64(0))


@inlined
def _bare_string(ends, place, num_bytes, adjustment):
    """(level, start in the bytes, length) of a string of version 2.0; the level is -1 if its ends are broken."""
    low = np.int64(read_word(ends + 8 * (place - 1), 8)) if place > 0 else np.int64(0)
    high = np.int64(read_word(ends + 8 * place, 8))
    level = np.int64(high >= adjustment)
    low -= adjustment if low >= adjustment else np.int64(0)
    high -= adjustment if level else np.int64(0)
    if low < 0 or low > high or high > num_bytes:
        return np.int64(-1), np.int64(0), np.int64(0)
    return level, low, high - low if level == 0 else np.int64(0)


@inlined
def _bare_value(data, data_size, start, size, place, pages, num_pages, page, taken, room, values):
    """(level, most bytes) of value `place` of a page of version 2.0; the level is -1 if it leaves the page."""
    kind, width = _number(pages, num_pages, page, KIND), _number(pages, num_pages, page, WIDTH)
    other, other_bytes = _number(pages, num_pages, page, OTHER), _number(pages, num_pages, page, OTHER_BYTES)
    if kind == STRINGS:
        if place >= size // 8 or _is_outside(other, other_bytes, data_size):
            return np.int64(-1), np.int64(0)
        adjustment = _number(pages, num_pages, page, REP_BITS)
        level, first, length = _bare_string(data + start, place, other_bytes, adjustment)
        symbols = _number(pages, num_pages, page, SYMBOLS)
        return level, locate_string(values, room, taken, data + other + first, length, symbols)
    if other >= 0 and _is_outside(other, (place >> 3) + 1, data_size):
        return np.int64(-1), np.int64(0)
    is_null = other >= 0 and (pointer_u8(data + other)[place >> 3] >> np.uint8(place & 7)) & np.uint8(1) == 0
    if kind == BITS:
        if place >> 3 >= size:
            return np.int64(-1), np.int64(0)
        copy_bit(data + start, place, values, taken)
    else:
        if place >= size // width:
            return np.int64(-1), np.int64(0)
        copy_bytes(values + taken * width, data + start + place * width, width)
    return np.int64(is_null), np.int64(0)


@inlined
def _repeated_value(pages, num_pages, page, taken, room, values):
    """(level, most bytes) of a page of one value, or of nulls."""
    kind, width = _number(pages, num_pages, page, KIND), _number(pages, num_pages, page, WIDTH)
    value = _number(pages, num_pages, page, SYMBOLS)
    level = np.int64(value == 0)
    if kind == STRINGS:
        return level, locate_string(values, room, taken, np.int64(0), np.int64(0), np.int64(0))
    if kind == BITS:
        if value:
            copy_bit(value, 0, values, taken)
    elif value:
        copy_bytes(values + taken * width, value, width)
    else:
        out = pointer_u8(values + taken * width)
        for byte in range(width):
            out[byte] = np.uint8(0)
    return level, np.int64(0)


@inlined
def _value_of_row(data, data_size, start, size, held, place, pages, num_pages, page, taken, room, defs, values):
    """(level, most bytes) of row `place` of a page of `held` rows without chunks; the level is -1 if it is broken."""
    layout = _number(pages, num_pages, page, LAYOUT)
    if layout == REPEATED:
        return _repeated_value(pages, num_pages, page, taken, room, values)
    if layout == BARE:
        return _bare_value(data, data_size, start, size, place, pages, num_pages, page, taken, room, values)
    no_reps = np.int64(0)
    slots, count, most = _zipped_row(
        data, data_size, start, size, held, place, no_reps, np.int64(MOST_SLOTS), pages, num_pages, page, taken, taken,
        room, no_reps, defs, values,
    )  # fmt: skip
    if slots != 1 or count != 1:
        return np.int64(-1), np.int64(0)
    return np.int64(pointer_u16(defs)[taken]) if defs else np.int64(0), most


@inlined
def _num_side_by_side(rows, i, num_rows, end):
    """The number of rows from number `i` on that follow each other, up to row `end`."""
    count = np.int64(1)
    while i + count < num_rows and rows[i + count] == rows[i] + count and rows[i] + count < end:
        count += 1
    return count


@inlined
def _set_owners(owners, start, stop, page):
    if owners:
        for k in range(start, stop):
            pointer_i64(owners)[k] = page


@inlined
def _pick_values(data, data_size, pages, num_pages, chunks, num_chunks, rows, num_rows, defs, values, owners, totals):
    """`pick` without lists: each row is one slot with one value."""
    of_chunk, ends = pointer_i64(chunks), pointer_i64(chunks + 32 * num_chunks)
    row_at, total = pointer_i64(rows), pointer_i64(totals)
    near = most = i = np.int64(0)
    while i < num_rows:
        row = row_at[i]
        if row < 0 or num_chunks == 0 or row >= ends[num_chunks - 1]:
            return ~i
        near = chunk = chunk_of(ends, num_chunks, row, near)
        page, start, size = of_chunk[chunk], of_chunk[num_chunks + chunk], of_chunk[2 * num_chunks + chunk]
        held = of_chunk[3 * num_chunks + chunk]
        place, count = row - (ends[chunk] - held), np.int64(1)
        if _is_outside(start, size, data_size) or place < 0:
            return ~i
        if _number(pages, num_pages, page, LAYOUT) == CHUNKS:
            count = _num_side_by_side(row_at, i, num_rows, ends[chunk])
            bound = _values_of_chunk(
                data + start, size, held, place, count, pages, num_pages, page, i, num_rows, defs, values
            )  # fmt: skip
            if bound < 0:
                return ~i
        else:
            level, bound = _value_of_row(
                data, data_size, start, size, held, place, pages, num_pages, page, i, num_rows, defs, values
            )  # fmt: skip
            if level < 0:
                return ~i
            if defs:
                pointer_u16(defs)[i] = np.uint16(level)
        most += bound
        _set_owners(owners, i, i + count, page)
        i += count
    total[0], total[1] = num_rows, most
    return num_rows


@inlined
def _unpack_chunk(chunk, size, pages, num_pages, page, scratch):
    """(slots, number of parts of levels, offset of the values) of a chunk of lists, whose levels it unpacks.

    -1 slots if the chunk contradicts itself.
    """
    size_bytes = _number(pages, num_pages, page, SIZE_BYTES)
    rep_bits, def_bits = _number(pages, num_pages, page, REP_BITS), _number(pages, num_pages, page, DEF_BITS)
    num_level_parts = np.int64(2 if def_bits != NO_LEVELS else 1)
    position = parts_begin(size, num_level_parts, _num_value_parts(pages, num_pages, page), size_bytes)
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
def _pick_zipped_lists(
    data, data_size, pages, num_pages, chunks, num_chunks, max_rep, visible, rows, num_rows, room, reps, defs, values,
    totals,
):  # fmt: skip
    """`pick` of lists of full-zip pages."""
    of_chunk, ends = pointer_i64(chunks), pointer_i64(chunks + 32 * num_chunks)
    row_at, total = pointer_i64(rows), pointer_i64(totals)
    near = picked = taken = most = np.int64(0)
    for i in range(num_rows):
        row = row_at[i]
        if row < 0 or num_chunks == 0 or row >= ends[num_chunks - 1]:
            return ~np.int64(i)
        near = chunk = chunk_of(ends, num_chunks, row, near)
        page, start, size = of_chunk[chunk], of_chunk[num_chunks + chunk], of_chunk[2 * num_chunks + chunk]
        held = of_chunk[3 * num_chunks + chunk]
        place = row - (ends[chunk] - held)
        if _is_outside(start, size, data_size) or place < 0:
            return ~np.int64(i)
        slots, count, bound = _zipped_row(
            data, data_size, start, size, held, place, max_rep, visible, pages, num_pages, page, picked, taken, room,
            reps, defs, values,
        )  # fmt: skip
        if slots < 0 or picked > MOST_SLOTS:
            return ~np.int64(i)
        picked, taken, most = picked + slots, taken + count, most + bound
    total[0], total[1] = taken, most
    return picked


@inlined
def _pick_lists(
    data, data_size, pages, num_pages, chunks, begun, finished, num_chunks, max_rep, visible, rows, num_rows, scratch,
    room, reps, defs, values, owners, totals,
):  # fmt: skip
    """`pick` of lists of mini-block pages. Rows in ascending order find the chunk of the row before still unpacked."""
    of_chunk, begun_to, finished_to = pointer_i64(chunks), pointer_i64(begun), pointer_i64(finished)
    row_at, total = pointer_i64(rows), pointer_i64(totals)
    top, bound = np.uint16(max_rep), np.uint16(visible)
    opened, start, part = np.int64(-1), data, np.int64(0)
    has_defs = False
    near = picked = taken = most = count = position = block = seen = shown = page = size = held = np.int64(0)
    i = np.int64(0)
    while i < num_rows:
        row = row_at[i]
        if row < 0 or num_chunks == 0 or row >= finished_to[num_chunks - 1]:
            return ~i
        after = row + _num_side_by_side(row_at, i, num_rows, finished_to[num_chunks - 1])
        near = chunk = chunk_of(begun_to, num_chunks, row, near)
        while True:
            before = begun_to[chunk - 1] if chunk > 0 else np.int64(0)
            if chunk != opened:
                page, size, held = of_chunk[chunk], of_chunk[2 * num_chunks + chunk], of_chunk[3 * num_chunks + chunk]
                if _is_outside(of_chunk[num_chunks + chunk], size, data_size):
                    return ~i
                start = data + of_chunk[num_chunks + chunk]
                count, part, position = _unpack_chunk(start, size, pages, num_pages, page, scratch)
                has_defs = _number(pages, num_pages, page, DEF_BITS) != NO_LEVELS
                if count < 0:
                    return ~i
            if chunk != opened or row - before < seen:
                block = seen = shown = np.int64(0)
            opened = chunk
            first = slot = np.int64(0)
            if chunk == near:
                slot, first, block, seen, shown = place_of_row(
                    scratch, count, row - before, has_defs, top, bound, block, seen, shown
                )  # fmt: skip
            stop, last, block, seen, shown = place_of_row(
                scratch, count, min(after, begun_to[chunk]) - before, has_defs, top, bound, block, seen, shown
            )  # fmt: skip
            is_last = finished_to[chunk] >= after
            is_none = slot < 0 or (slot == count and chunk == near)
            if is_none or stop < slot or last < first or last > held or (stop < count and not is_last):
                return ~i
            if picked + stop - slot <= room:
                keep_levels(scratch, slot, stop, has_defs, reps, defs, picked)
                strings = _chunk_values(
                    start, size, part, position, held, first, last - first, pages, num_pages, page, taken, room, values
                )  # fmt: skip
                if strings < 0:
                    return ~i
                most += strings
                _set_owners(owners, taken, taken + last - first, page)
            picked, taken, chunk = picked + stop - slot, taken + last - first, chunk + 1
            if picked > MOST_SLOTS or (chunk >= num_chunks and not is_last):
                return ~i
            if is_last:
                break
        i += after - row
    total[0], total[1] = taken, most
    return picked


@kernel("int64(" + ", ".join(["int64"] * 19) + ")")
def pick(
    data, data_size, pages, num_pages, chunks, begun, finished, num_chunks, max_rep, visible, rows, num_rows, scratch,
    room, reps, defs, values, owners, totals,
):  # fmt: skip
    """Takes rows of a column.

    Args:
        data, data_size: the bytes of the pages.
        pages: ``int64[PAGE_NUMBERS, num_pages]``. All have values of one width, or strings.
        chunks: ``int64[5, num_chunks]``: of each chunk its page, its start in the data and its bytes, its number of
            values, and the values up to its end. Pages without chunks are one.
        begun, finished: int64[num_chunks], for lists in mini-block pages: the rows that begin, and that end, up to the
            end of each chunk; 0 for others.
        max_rep, visible: the number of list layers, and the highest definition level of a value.
        rows: int64[num_rows], in any order.
        scratch: ``uint16[2, SCRATCH_LEVELS]``, if there are `begun`.
        room: how many slots there is room for; without lists `num_rows`.
        reps, defs: uint16[room], get the levels; 0 if there are none.
        values: gets the values, bits must be 0 before; of strings ``int64[3, room]``, see `locate_string`.
        owners: int64[room], gets the page of each value; 0 if nobody needs it.
        totals: int64[2], gets the number of values, and the most bytes that strings can have.

    Returns:
        The number of slots; if there is no room for them, not all have been written. ``~i`` for the first row that is
        in no chunk, whose chunk contradicts itself or its rows, or with which there are more than `MOST_SLOTS`.
    """
    if max_rep == 0:
        return _pick_values(
            data, data_size, pages, num_pages, chunks, num_chunks, rows, num_rows, defs, values, owners, totals
        )  # fmt: skip
    if begun == 0:
        return _pick_zipped_lists(
            data, data_size, pages, num_pages, chunks, num_chunks, max_rep, visible, rows, num_rows, room, reps, defs,
            values, totals,
        )  # fmt: skip
    return _pick_lists(
        data, data_size, pages, num_pages, chunks, begun, finished, num_chunks, max_rep, visible, rows, num_rows,
        scratch, room, reps, defs, values, owners, totals,
    )  # fmt: skip


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def copy_strings(strings, room, num_strings, offset_bytes, offsets, target):
    """Copies the first `num_strings` strings that `pick` has located.

    Args:
        strings: ``int64[3, room]``.
        offset_bytes: 4 or 8; 4 only if their most bytes are less than 2 GiB.
        offsets: num_strings + 1 offsets, gets 0 and the end of each string.
        target: room for their most bytes, and for `lance_spark.kernels.compression.fsst.SLACK_BYTES`.

    Returns:
        The bytes of all strings, or ``~i`` for the first one with a code without a symbol.
    """
    table = pointer_i64(strings)
    at = np.int64(0)
    write_offset(offsets, offset_bytes, 0, at)
    for i in range(num_strings):
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
