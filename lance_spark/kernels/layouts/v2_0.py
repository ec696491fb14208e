"""Inner loops of file version 2.0: end offsets, unaligned bits, dictionary strings, plain bit packing.

A 2.0 page stores the end of every list or string, and adds an *adjustment* (larger than any end) if the value is null,
so that any row can be read with its own entry and the preceding one. Worked example, adjustment 7::

    [[A, B], null, [], [C, D, E]]    ->    ends 2, 9, 2, 5

Rows 2..4 need entries 1, 2 and 3: by entry 1 they start at 9 - 7 = 2, and their ends are 2 and 5.

Addresses, lengths and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u32,
    pointer_u64,
)

MAX_NARROW_OFFSET = 2**31 - 1

FALLING = -1
"""`rebase_ends`: an end is less than the preceding one, or beyond the last item."""

OUTSIDE = -1
"""`plan_ranges`: a range begins before the preceding one, or is outside of the buffer."""

TOO_LONG = -2
"""`rebase_ends`: the result needs 64-bit offsets."""


@inlined
def _rebase_without_nulls(source, num_values, before, shift, target):
    """Writes every end plus `shift`; returns True if they never decrease."""
    ends = pointer_u64(source)
    falls = np.uint8(ends[0] < before)
    target[0] = np.int64(ends[0]) + shift
    for i in range(np.uint64(1), np.uint64(num_values)):
        target[i] = np.int64(ends[i]) + shift
        falls |= np.uint8(ends[i] < ends[i - np.uint64(1)])
    return falls == 0


@inlined
def _rebase_with_nulls(source, num_values, before, limit, adjustment, shift, target, bitmap, first_bit):
    """Returns the number of nulls, negative if an end decreases or exceeds `limit`; clears the bits of nulls."""
    ends = pointer_u64(source)
    num_nulls = np.int64(0)
    for i in range(np.uint64(num_values)):
        end = ends[i]
        if end >= adjustment:
            end -= adjustment
            bit = np.uint64(first_bit) + i
            bitmap[bit >> np.uint64(3)] &= np.uint8(0xFF ^ (1 << (bit & np.uint64(7))))
            num_nulls += 1
        if end < before or end > limit:
            return np.int64(FALLING)
        before = end
        target[i] = np.int64(end) + shift
    return num_nulls


@inlined
def _rebase_range(source, num_values, before, limit, adjustment, shift, target, bitmap, first_bit):
    last = pointer_u64(source)[num_values - 1]
    if last <= limit and _rebase_without_nulls(source, num_values, before, shift, target):
        return np.int64(0)
    return _rebase_with_nulls(source, num_values, before, limit, adjustment, shift, target, bitmap, first_bit)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def rebase_ends(ends, counts, has_before, pages, num_pages, wide, offsets, bitmap, starts, stops):
    """Converts the ends of ranges of values to offsets from 0, back to back; returns the number of nulls.

    A negative result is `FALLING` or `TOO_LONG`; the output is then undefined.

    Args:
        ends: u64, for every range the preceding entry (if any) and the entries of its values.
        counts: i64[ranges], values of each range, at least 1.
        has_before: u8[ranges], whether a range's entries include the preceding one; else it starts at 0.
        pages: i64[3, num_pages], for each page its number of ranges, the largest end, and what is added to the end of
            nulls, which is larger.
        wide: whether `offsets` have 64 bits, else 32.
        offsets: one more entry than values.
        bitmap: validity, one bit per value, initially all set.
        starts: i64[ranges], first item of each range in its page; never before the end of the page's range before.
        stops: i64[ranges], the item after its last.
    """
    count = pointer_i64(counts)
    before_flag = pointer_u8(has_before)
    valid = pointer_u8(bitmap)
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    num_ranges = pointer_i64(pages)
    limits = pointer_u64(pages + num_pages * 8)
    adjustments = pointer_u64(pages + 2 * num_pages * 8)
    narrow_offsets = pointer_i32(offsets)
    wide_offsets = pointer_i64(offsets)
    narrow_offsets[0] = 0
    if wide:
        wide_offsets[0] = 0
    written = np.int64(0)
    items = np.int64(0)
    num_nulls = np.int64(0)
    i = np.int64(0)
    for page in range(num_pages):
        limit, adjustment = limits[page], adjustments[page]
        passed = np.uint64(0)
        for _ in range(num_ranges[page]):
            first = np.uint64(0)
            if before_flag[i]:
                first = pointer_u64(ends)[0]
                if first >= adjustment:
                    first -= adjustment
                ends += 8
            last = pointer_u64(ends)[count[i] - 1]
            if last >= adjustment:
                last -= adjustment
            if first < passed or last < first or last > limit:
                return np.int64(FALLING)
            passed = last
            shift = items - np.int64(first)
            items += np.int64(last - first)
            if wide:
                target = pointer_i64(offsets + (written + 1) * 8)
                nulls = _rebase_range(ends, count[i], first, limit, adjustment, shift, target, valid, written)
            else:
                if items > MAX_NARROW_OFFSET:
                    return np.int64(TOO_LONG)
                narrow = pointer_i32(offsets + (written + 1) * 4)
                nulls = _rebase_range(ends, count[i], first, limit, adjustment, shift, narrow, valid, written)
            if nulls < 0:
                return nulls
            num_nulls += nulls
            start[i] = np.int64(first)
            stop[i] = np.int64(last)
            written += count[i]
            ends += count[i] * 8
            i += 1
    return num_nulls


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def plan_ranges(starts, stops, num_ranges, position, size, max_gap, table):
    """Joins ranges of a buffer over gaps of up to `max_gap` bytes; returns the number of spans, or `OUTSIDE`.

    Args:
        starts, stops: i64[num_ranges], bytes of the buffer; starts ascend. Empty ranges are left out.
        position, size: of the buffer in the file.
        table: ``i64[4, num_ranges + 1]``: start in the file and length of each span; then the span of each range, and
            its start within that. The last elements of the first two rows are the bytes of all spans, and their end.
    """
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    out = pointer_i64(table)
    row = num_ranges + 1
    span = np.int64(-1)
    end = np.int64(0)
    first = np.int64(0)
    last = np.int64(0)
    num_bytes = np.int64(0)
    for i in range(num_ranges):
        out[2 * row + i] = 0
        out[3 * row + i] = 0
        if start[i] >= stop[i]:
            continue
        if start[i] < last or stop[i] > size:
            return np.int64(OUTSIDE)
        last = start[i]
        if span < 0 or start[i] - end > max_gap:
            span += 1
            first = start[i]
            end = first
            out[span] = position + first
        num_bytes += max(stop[i] - end, 0)
        end = max(end, stop[i])
        out[row + span] = end - first
        out[2 * row + i] = span
        out[3 * row + i] = start[i] - first
    out[num_ranges] = num_bytes
    out[row + num_ranges] = position + end
    return span + 1


@inlined
def _bit_at(bits, place):
    return np.uint8((bits[place >> np.uint64(3)] >> (place & np.uint64(7))) & np.uint8(1))


@kernel("void(int64, int64, int64, int64, int64)")
def gather_bits(data, starts, counts, num_ranges, target):
    """Copies `counts[i]` bits from bit `starts[i]` of `data` for every i, back to back (LSB first).

    `target` is initially zero.
    """
    bits = pointer_u8(data)
    out = pointer_u8(target)
    start = pointer_i64(starts)
    count = pointer_i64(counts)
    filled = np.uint64(0)
    for i in range(np.uint64(num_ranges)):
        place = np.uint64(start[i])
        stop = place + np.uint64(count[i])
        while place < stop and filled & np.uint64(7):
            out[filled >> np.uint64(3)] |= np.uint8(_bit_at(bits, place) << (filled & np.uint64(7)))
            place += np.uint64(1)
            filled += np.uint64(1)
        num_bytes = (stop - place) >> np.uint64(3)
        source = place >> np.uint64(3)
        sink = filled >> np.uint64(3)
        shift = place & np.uint64(7)
        if shift == 0:
            copy_bytes(target + np.int64(sink), data + np.int64(source), np.int64(num_bytes))
        else:
            for j in range(num_bytes):
                low = np.uint64(bits[source + j]) >> shift
                high = np.uint64(bits[source + j + np.uint64(1)]) << (np.uint64(8) - shift)
                out[sink + j] = np.uint8((low | high) & np.uint64(0xFF))
        place += num_bytes << np.uint64(3)
        filled += num_bytes << np.uint64(3)
        while place < stop:
            out[filled >> np.uint64(3)] |= np.uint8(_bit_at(bits, place) << (filled & np.uint64(7)))
            place += np.uint64(1)
            filled += np.uint64(1)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def dictionary_offsets(codes, pages, num_pages, item_offsets, item_validity, offsets, bitmap):
    """Writes the offsets (i32) of strings from their codes; returns the number of nulls.

    Code 0 is null: its bit in `bitmap` (initially all set) is cleared. Code k is item k - 1 of its page. A negative
    result is ``FALLING`` for a code without an item and ``TOO_LONG`` if the strings need 64-bit offsets.

    Args:
        codes: u8, those of all pages.
        pages: i64[2, num_pages], the codes and the items of each page.
        item_offsets: i32, of the items of all pages, which rise from 0.
        item_validity: bitmap of the items, 0 if none is null.
        offsets: i32, one more than codes.
    """
    code = pointer_u8(codes)
    num_codes = pointer_i64(pages)
    num_items = pointer_i64(pages + num_pages * 8)
    item_offset = pointer_i32(item_offsets)
    item_valid = pointer_u8(item_validity)
    out = pointer_i32(offsets)
    valid = pointer_u8(bitmap)
    out[0] = 0
    filled = np.int64(0)
    num_nulls = np.int64(0)
    i = np.uint64(0)
    first = np.int64(0)
    for page in range(num_pages):
        for _ in range(num_codes[page]):
            number = np.int64(code[i])
            if number > num_items[page]:
                return np.int64(FALLING)
            item = np.uint64(first + number - 1)
            if number == 0 or (item_validity != 0 and _bit_at(item_valid, item) == 0):
                valid[i >> np.uint64(3)] &= np.uint8(0xFF ^ (1 << (i & np.uint64(7))))
                num_nulls += 1
            else:
                filled += np.int64(item_offset[item + np.uint64(1)]) - np.int64(item_offset[item])
                if filled > MAX_NARROW_OFFSET:
                    return np.int64(TOO_LONG)
            i += np.uint64(1)
            out[i] = filled
        first += num_items[page]
    return num_nulls


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def dictionary_bytes(codes, pages, num_pages, item_offsets, items, offsets, target):
    """Copies the bytes of strings, selected by code, to `offsets` (i32, from `dictionary_offsets`).

    Copies whole words: `items` and `target` have 8 extra bytes.

    Args:
        codes, pages, item_offsets: as for `dictionary_offsets`, which has checked them.
        items: the bytes of the items of all pages.
    """
    code = pointer_u8(codes)
    num_codes = pointer_i64(pages)
    num_items = pointer_i64(pages + num_pages * 8)
    item_offset = pointer_i32(item_offsets)
    offset = pointer_i32(offsets)
    i = np.uint64(0)
    first = np.int64(0)
    for page in range(num_pages):
        for _ in range(num_codes[page]):
            size = np.int64(offset[i + np.uint64(1)]) - np.int64(offset[i])
            if size > 0:
                source = items + np.int64(item_offset[first + np.int64(code[i]) - 1])
                sink = target + np.int64(offset[i])
                while size > 0:
                    pointer_u64(sink)[0] = pointer_u64(source)[0]
                    sink += 8
                    source += 8
                    size -= 8
            i += np.uint64(1)
        first += num_items[page]


@inlined
def _word_of_bits(bits, place, width):
    """`width` (1 to 64) bits from bit `place`, as the low bits of a word; accesses only bytes that contain them."""
    word = np.uint64(0)
    taken = np.uint64(0)
    byte = place >> np.uint64(3)
    skipped = place & np.uint64(7)
    while taken < width:
        word |= (np.uint64(bits[byte]) >> skipped) << taken
        taken += np.uint64(8) - skipped
        skipped = np.uint64(0)
        byte += np.uint64(1)
    if width < np.uint64(64):
        word &= (np.uint64(1) << width) - np.uint64(1)
    return word


@kernel("void(int64, int64, int64, int64, uint64, int64, int64, int64)")
def unpack_contiguous(data, starts, counts, num_ranges, width, signed, word_bytes, target):
    """Unpacks back-to-back values of `width` bits (1 to 64), LSB first, into words of 1, 2, 4 or 8 bytes.

    Args:
        starts: i64[num_ranges], the bit of `data` at which each range of values starts.
        counts: i64[num_ranges], values of each range.
        signed: whether the highest bit of a packed value is its sign.
    """
    bits = pointer_u8(data)
    start = pointer_i64(starts)
    count = pointer_i64(counts)
    sign = np.uint64(1) << (width - np.uint64(1))
    for i in range(np.uint64(num_ranges)):
        place = np.uint64(start[i])
        for _ in range(np.uint64(count[i])):
            word = _word_of_bits(bits, place, width)
            if signed:
                word = (word ^ sign) - sign
            if word_bytes == 1:
                pointer_u8(target)[0] = np.uint8(word & np.uint64(0xFF))
            elif word_bytes == 2:
                pointer_u16(target)[0] = np.uint16(word & np.uint64(0xFFFF))
            elif word_bytes == 4:
                pointer_u32(target)[0] = np.uint32(word & np.uint64(0xFFFFFFFF))
            else:
                pointer_u64(target)[0] = word
            target += word_bytes
            place += width
