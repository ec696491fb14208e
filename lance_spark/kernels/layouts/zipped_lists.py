"""Byte strings in the lists of some rows of full-zip pages, from a file in memory: found and checked.

`lance_spark.layouts.in_memory.zipped_lists` makes the tables that the kernel reads.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64
from lance_spark.kernels.layouts.single_rows import chunk_of
from lance_spark.kernels.words import read_word

NUM_FIELDS = 8
"""Of a page."""


@inlined
def _take_list(slots, low, high, control, first, length_bytes, taken, room, found):
    """(values of the list with the slots from `low` to `high`, their bytes); no values if it contradicts itself.

    Also for lists with nulls, and for empty ones. Values are written where there is room for them.
    """
    sources, sizes = pointer_i64(found), pointer_i64(found + 8 * room)
    count = total = np.int64(0)
    wanted = first
    while low < high:
        if high - low < control + length_bytes or np.int64(read_word(slots + low, control)) != wanted:
            return np.int64(0), np.int64(0)
        low += control
        length = np.int64(read_word(slots + low, length_bytes))
        low += length_bytes
        if length < 0 or length > high - low:
            return np.int64(0), np.int64(0)
        if taken + count < room:
            sources[taken + count] = slots + low
            sizes[taken + count] = length
        low += length
        total += length
        count += 1
        wanted = np.int64(0)
    return count, total


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def locate_zipped_lists(data, pages, num_pages, rows, num_rows, room, found, starts, total):
    """Finds the byte strings in the lists of some rows, if no list or string is null and no list is empty.

    Args:
        data: the file.
        pages: ``int64[NUM_FIELDS, num_pages]``: where the slots of each page begin, and their bytes; where the index of
            its rows begins, and the bytes of an entry (1, 2, 4 or 8), of which there is one more than rows, all within
            the file; the bytes of a control word (1, 2 or 4), the one with which a list begins, and the bytes of a
            length (4 or 8); the rows up to the end of the page. Slots have no levels but that of the first in a list.
        rows: int64[num_rows], in any order.
        room: how many strings `found` has room for.
        found: ``int64[3, room]``, gets where each string is in memory, and its bytes; the rest stays as it is.
        starts: int64[num_rows], gets how many strings the lists in front of each have.
        total: int64[1], gets the bytes of all strings.

    Returns:
        The number of strings, which may be more than there was room for, or ``~i`` for the first row that is in no
        page, or whose slots are others or contradict themselves.
    """
    of_page = pointer_i64(pages)
    ends = pointer_i64(pages + 8 * (NUM_FIELDS - 1) * num_pages)
    wanted = pointer_i64(rows)
    out = pointer_i64(starts)
    taken = num_bytes = page = np.int64(0)
    for i in range(num_rows):
        row = wanted[i]
        if row < 0 or num_pages == 0 or row >= ends[num_pages - 1]:
            return ~np.int64(i)
        page = chunk_of(ends, num_pages, row, page)
        place = row - (ends[page - 1] if page > 0 else np.int64(0))
        width = of_page[3 * num_pages + page]
        entry = data + of_page[2 * num_pages + page] + place * width
        low, high = np.int64(read_word(entry, width)), np.int64(read_word(entry + width, width))
        if low < 0 or high < low or high > of_page[num_pages + page]:
            return ~np.int64(i)
        count, size = _take_list(
            data + of_page[page], low, high, of_page[4 * num_pages + page], of_page[5 * num_pages + page],
            of_page[6 * num_pages + page], taken, room, found,
        )  # fmt: skip
        if count == 0:
            return ~np.int64(i)
        out[i] = taken
        taken += count
        num_bytes += size
    pointer_i64(total)[0] = num_bytes
    return taken
