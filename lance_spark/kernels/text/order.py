"""The order of documents, by their rows and by their numbers in the lists of these rows."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_u32, pointer_u64


@kernel("int64(int64, int64, int64, int64)")
def order_of(rows_at, items_at, levels, count):
    """1 if documents ascend, 0 if they do but for equal ones, -1 if a row comes after a later one.

    Args:
        rows_at: u64[count].
        items_at: u32[count, levels], ascending among documents of the same row or else taken for equal ones; 0 if
            documents are rows.
    """
    rows = pointer_u64(rows_at)
    descends = False
    is_equal = False
    for i in range(1, count):
        descends |= rows[i] < rows[i - 1]
        is_equal |= rows[i] == rows[i - 1]
    if descends:
        return np.int64(-1)
    if is_equal and items_at != 0:
        items = pointer_u32(items_at)
        is_equal = False
        for i in range(1, count):
            if rows[i] != rows[i - 1]:
                continue
            at = i * levels
            last = at + levels - 1
            while at < last and items[at] == items[at - levels]:
                at += 1
            is_equal |= items[at] <= items[at - levels]
    return np.int64(0) if is_equal else np.int64(1)
