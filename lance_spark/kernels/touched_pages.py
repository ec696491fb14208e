"""The pages that some rows are in."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_i64


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def touched_pages(starts, stops, num_ranges, lengths, sizes, num_pages, range_bytes, moved, table, capacity):
    """Finds the pages of ranges of rows, none of which is in two pages.

    Args:
        starts, stops: int64[num_ranges], ascending ranges of rows.
        lengths, sizes: int64[num_pages], the rows and the bytes of each page.
        range_bytes: about how many bytes of a page each range costs beside its rows.
        moved: ``int64[2, num_ranges]``, gets the starts and stops as if the touched pages lay one behind the other.
        table: ``int64[5, capacity]``: of each page its index, how many of the rows it has, about how many of its bytes
            have to be decoded, the index of its first range, and the rows of the touched pages before it.

    Returns:
        The number of pages; -1 if a range is empty, in two pages, or in none.
    """
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    length = pointer_i64(lengths)
    size = pointer_i64(sizes)
    out = pointer_i64(moved)
    found = pointer_i64(table)
    count = np.int64(0)
    page = np.int64(0)
    first = np.int64(0)
    before = np.int64(0)
    following = np.int64(0)
    i = np.int64(0)
    while i < num_ranges:
        while page < num_pages and first + length[page] <= start[i]:
            first += length[page]
            page += 1
        if page == num_pages or count == capacity or start[i] < first:
            return -1
        before = following
        opens = i
        wanted = np.int64(0)
        while i < num_ranges and start[i] < first + length[page]:
            if stop[i] <= start[i] or stop[i] > first + length[page] or start[i] < first:
                return -1
            wanted += stop[i] - start[i]
            out[i] = start[i] - first + before
            out[num_ranges + i] = stop[i] - first + before
            i += 1
        # As a float, because the product can exceed an integer.
        needed = np.float64(size[page]) * wanted / length[page] + np.float64(i - opens) * range_bytes
        found[count] = page
        found[capacity + count] = wanted
        found[2 * capacity + count] = size[page] if needed >= size[page] else np.int64(needed)
        found[3 * capacity + count] = opens
        found[4 * capacity + count] = before
        following += length[page]
        count += 1
    return count


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def cut_at_pages(starts, stops, num_ranges, borders, num_pages, table, capacity):
    """Cuts ranges of values at the borders of pages.

    Args:
        starts, stops: int64[num_ranges], ascending ranges of values.
        borders: int64[num_pages + 1], the first value of each page and the end of the last.
        table: ``int64[3, capacity]``, room for a piece for each range and each page: gets start and stop of each piece
            in its page, and the page.

    Returns:
        The number of pieces; -1 if a range is empty, before the one before it, or outside of all pages.
    """
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    border = pointer_i64(borders)
    out = pointer_i64(table)
    count = np.int64(0)
    page = np.int64(0)
    done = border[0]
    for i in range(num_ranges):
        at = start[i]
        if at < done or stop[i] <= at or stop[i] > border[num_pages]:
            return -1
        done = stop[i]
        while at < done:
            while border[page + 1] <= at:
                page += 1
            if count == capacity:
                return -1
            end = min(done, border[page + 1])
            out[count] = at - border[page]
            out[capacity + count] = end - border[page]
            out[2 * capacity + count] = page
            count += 1
            at = end
    return count
