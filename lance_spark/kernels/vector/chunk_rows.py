"""Rows of values that lie in chunks."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import copy_bytes, kernel, pointer_i64


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def copy_rows(starts, firsts, counts, num_chunks, row_bytes, range_starts, range_stops, num_ranges, targets):
    """Copies ranges of rows, each to a place of its own.

    Args:
        starts, firsts, counts: int64[num_chunks]: the address of the values of a chunk, its first row, and how many
            rows it has; in the order of the rows.
        range_starts, range_stops: int64[num_ranges]: ascending, disjoint.
        targets: int64[num_ranges]: the address of the room for each.

    Returns:
        0, or -1 if a row is in no chunk.
    """
    place, first, count = pointer_i64(starts), pointer_i64(firsts), pointer_i64(counts)
    row_start, row_stop, target = pointer_i64(range_starts), pointer_i64(range_stops), pointer_i64(targets)
    chunk = np.int64(0)
    for i in range(num_ranges):
        row, to = row_start[i], target[i]
        while row < row_stop[i]:
            while chunk < num_chunks and first[chunk] + count[chunk] <= row:
                chunk += 1
            if chunk == num_chunks or first[chunk] > row:
                return -1
            stop = min(row_stop[i], first[chunk] + count[chunk])
            size = (stop - row) * row_bytes
            copy_bytes(to, place[chunk] + (row - first[chunk]) * row_bytes, size)
            to += size
            row = stop
    return 0
