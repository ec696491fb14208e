"""Grouping rows by keys that are known by number."""

from __future__ import annotations

from lance_spark.kernels.jit import kernel, pointer_i32, pointer_i64, pointer_u64


@kernel("int64(int64, int64, int64, int64, int64)")
def group_rows(keys_at, rows_at, num_rows, places_at, out_at):
    """Puts rows to those of their keys; always 0.

    Args:
        keys_at: i32[num_rows], the key of each row; rows with a negative one are left out.
        rows_at: u64[num_rows].
        places_at: i64, where the next row of each key is put; changed.
        out_at: u64, filled.
    """
    keys = pointer_i32(keys_at)
    rows = pointer_u64(rows_at)
    places = pointer_i64(places_at)
    out = pointer_u64(out_at)
    for i in range(num_rows):
        key = keys[i]
        if key < 0:
            continue
        place = places[key]
        places[key] = place + 1
        out[place] = rows[i]
    return 0
