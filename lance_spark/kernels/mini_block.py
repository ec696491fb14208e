"""The headers of mini-block chunks (`lance.encodings21.MiniBlockLayout`).

A chunk begins with ``u16 num_levels``, ``u16`` bytes of repetition levels and ``u16`` bytes of definition levels (each
only if the page has them) and the bytes of each value buffer (``u16``, or ``u32`` in pages with large chunks). The
header and each part are padded to 8 bytes, counted from the start of the chunk.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8


@inlined
def _number(address, num_bytes):
    bytes_ = pointer_u8(address)
    value = np.int64(0)
    for i in range(num_bytes):
        value |= np.int64(bytes_[i]) << (8 * i)
    return value


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def locate_parts(data, data_size, starts, sizes, num_chunks, num_level_parts, num_value_parts, size_bytes, table):
    """Locates the parts of each chunk in `data`.

    Args:
        data_size: bytes at `data`.
        starts: int64[num_chunks], start of each chunk.
        sizes: int64[num_chunks], bytes of each chunk.
        num_level_parts: 0 to 2 parts of levels, whose sizes have 2 bytes.
        num_value_parts: parts of values, whose sizes have `size_bytes` bytes.
        table: ``int64[1 + 2 * parts, num_chunks]``: the number of levels, then start and size of each part.

    Returns:
        0, or ``~i`` for the first chunk with a part out of bounds.
    """
    start_of = pointer_i64(starts)
    size_of = pointer_i64(sizes)
    out = pointer_i64(table)
    num_parts = num_level_parts + num_value_parts
    header = 2 + 2 * num_level_parts + size_bytes * num_value_parts
    for i in range(num_chunks):
        start = start_of[i]
        size = size_of[i]
        if start < 0 or size < header or start + size > data_size:
            return ~np.int64(i)
        out[i] = _number(data + start, 2)
        at = data + start + 2
        position = (header + 7) // 8 * 8
        for part in range(num_parts):
            width = 2 if part < num_level_parts else size_bytes
            num_bytes = _number(at, width)
            at += width
            if position + num_bytes > size:
                return ~np.int64(i)
            out[(1 + 2 * part) * num_chunks + i] = start + position
            out[(2 + 2 * part) * num_chunks + i] = num_bytes
            position += (num_bytes + 7) // 8 * 8
    return 0
