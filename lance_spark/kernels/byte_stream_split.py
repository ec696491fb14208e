"""Byte stream split (`lance.encodings21.ByteStreamSplit`): all bytes 0 of a chunk, then all bytes 1, and so on.

Worked example, two 32-bit values: ``01 02 03 04, 11 12 13 14 -> 01 11, 02 12, 03 13, 04 14``.

Addresses and counts are int64; the caller has checked that chunk i has ``num_values[i] * word_bytes`` bytes.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_i64, pointer_u8, pointer_u32, pointer_u64


@kernel("void(int64, int64, int64, int64, int64, int64)")
def join_bytes(data, starts, num_values, num_chunks, word_bytes, target):
    """Writes the values of all chunks back to back; `word_bytes` is 4 or 8."""
    start = pointer_i64(starts)
    count = pointer_i64(num_values)
    for i in range(np.uint64(num_chunks)):
        n = np.uint64(count[i])
        source = pointer_u8(data + start[i])
        if word_bytes == 4:
            words = pointer_u32(target)
            for j in range(n):
                low = np.uint32(source[j]) | (np.uint32(source[n + j]) << np.uint32(8))
                high = np.uint32(source[n + n + j]) | (np.uint32(source[n + n + n + j]) << np.uint32(8))
                words[j] = low | (high << np.uint32(16))
        else:
            longs = pointer_u64(target)
            for j in range(n):
                word = np.uint64(0)
                for byte in range(np.uint64(8)):
                    word |= np.uint64(source[n * byte + j]) << (byte * np.uint64(8))
                longs[j] = word
        target += count[i] * word_bytes


@kernel("void(int64, int64, int64, int64, int64)")
def split_bytes(source, num_values, num_chunks, word_bytes, target):
    """Writes chunks of num_values[i] values, split, back to back."""
    count = pointer_i64(num_values)
    for i in range(np.uint64(num_chunks)):
        values = pointer_u8(source)
        out = pointer_u8(target)
        n = np.uint64(count[i])
        width = np.uint64(word_bytes)
        for byte in range(width):
            for j in range(n):
                out[byte * n + j] = values[j * width + byte]
        source += count[i] * word_bytes
        target += count[i] * word_bytes
