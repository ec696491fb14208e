"""Grouping rows by the trigrams of their texts."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_i64, pointer_u8, pointer_u32


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def group_trigrams(
    data_at, num_bytes, offsets_at, num_texts, codes_at, base, num_tokens, last_at, starts_at, out_at, capacity
):
    """Groups texts by trigram: three bytes in a row with a code. A text is in a group once, and groups ascend.

    Args:
        data_at, num_bytes: the bytes of all texts.
        offsets_at: i64[num_texts + 1], where texts start and end in the data.
        codes_at: u8[256], the code of each byte, less than `base`; 0 for one that is in no trigram.
        base: token = (first code * base + second code) * base + third code.
        num_tokens: base to the power of three.
        last_at: u32[num_tokens], scratch.
        starts_at: i64[num_tokens + 1], filled: where the texts of each token start in the result.
        out_at: u32[capacity], filled with the numbers of texts.

    Returns:
        the number of entries; -1: an offset is outside of the data; -2: more entries than `capacity`.
    """
    data = pointer_u8(data_at)
    offsets = pointer_i64(offsets_at)
    codes = pointer_u8(codes_at)
    last = pointer_u32(last_at)
    starts = pointer_i64(starts_at)
    out = pointer_u32(out_at)
    for token in range(num_tokens + 1):
        starts[token] = 0
    # The first round counts, the second one fills; `starts` is moved by one token meanwhile.
    for is_second in range(2):
        for token in range(num_tokens):
            last[token] = 0
        for text in range(num_texts):
            start = offsets[text]
            stop = offsets[text + 1]
            if start < 0 or stop < start or stop > num_bytes:
                return -1
            first = np.int64(0)
            second = np.int64(0)
            for place in range(start, stop):
                third = np.int64(codes[data[place]])
                token = (first * base + second) * base + third
                is_trigram = first != 0 and second != 0 and third != 0 and third < base
                first, second = second, third if third < base else np.int64(0)
                if is_trigram and last[token] != text + 1:
                    last[token] = text + 1
                    if is_second:
                        out[starts[token]] = text
                    starts[token] += 1
        if not is_second:
            total = 0
            for token in range(num_tokens):
                count = starts[token]
                starts[token] = total
                total += count
            if total > capacity:
                return -2
    for token in range(num_tokens, 0, -1):
        starts[token] = starts[token - 1]
    starts[0] = 0
    return total
