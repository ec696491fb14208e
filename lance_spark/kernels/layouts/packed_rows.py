"""Rows of a packed struct with consecutive fields (`lance.encodings21.VariablePackedStruct`).

A field of fixed width is its bytes; a field of variable width is its length and its bytes.

Addresses, lengths and counts are int64. A negative result is ``~i`` if the length of row i does not match its fields.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import copy_bytes, kernel, pointer_i64
from lance_spark.kernels.words import read_word, write_word


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def locate_fields(offsets, data, num_rows, num_fields, widths, length_bytes, target_starts, target_sizes):
    """Writes the start in `data` and the size of each field of each row.

    Args:
        offsets: int64[num_rows + 1], ascending, within `data`.
        widths: int64[num_fields]; bytes of a field of fixed width.
        length_bytes: int64[num_fields]; 1, 2, 4 or 8 for a field of variable width, 0 for one of fixed width.
        target_starts: int64[num_fields, num_rows].
        target_sizes: int64[num_fields, num_rows].
    """
    offset = pointer_i64(offsets)
    width = pointer_i64(widths)
    length_width = pointer_i64(length_bytes)
    start = pointer_i64(target_starts)
    size = pointer_i64(target_sizes)
    for row in range(num_rows):
        at = offset[row]
        stop = offset[row + 1]
        for field in range(num_fields):
            taken = width[field]
            if length_width[field] != 0:
                if length_width[field] > stop - at:
                    return ~np.int64(row)
                taken = np.int64(read_word(data + at, length_width[field]))
                at += length_width[field]
            if taken < 0 or taken > stop - at:
                return ~np.int64(row)
            start[field * num_rows + row] = at
            size[field * num_rows + row] = taken
            at += taken
        if at != stop:
            return ~np.int64(row)
    return 0


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def join_fields(num_rows, num_fields, field_data, length_bytes, starts, sizes, target):
    """Writes the rows back to back; the inverse of `locate_fields`.

    Args:
        field_data: int64[num_fields], addresses of the fields' bytes.
        starts: int64[num_fields, num_rows], start of each value in them.
        sizes: int64[num_fields, num_rows].
    """
    source = pointer_i64(field_data)
    length_width = pointer_i64(length_bytes)
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    for row in range(num_rows):
        for field in range(num_fields):
            taken = size[field * num_rows + row]
            if length_width[field] != 0:
                write_word(target, length_width[field], taken)
                target += length_width[field]
            copy_bytes(target, source[field] + start[field * num_rows + row], taken)
            target += taken
