"""A fast test of text: bytes below 128 are valid UTF-8 regardless of string boundaries."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_u8, pointer_u64


@kernel("int64(int64, int64)")
def has_only_ascii(data, num_bytes):
    """1 if no byte has its top bit set, else 0."""
    words = pointer_u64(data)
    tail = pointer_u8(data)
    seen = np.uint64(0)
    block = np.uint64(512)
    num_words = np.uint64(num_bytes // 8)
    done = np.uint64(0)
    while done < num_words:
        stop = min(done + block, num_words)
        for i in range(done, stop):
            seen |= words[i]
        done = stop
        if seen & np.uint64(0x8080808080808080) != np.uint64(0):
            return 0
    for i in range(num_bytes // 8 * 8, num_bytes):
        seen |= np.uint64(tail[i])
    return np.int64(seen & np.uint64(0x8080808080808080) == np.uint64(0))
