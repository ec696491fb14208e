"""Impacts: the documents of a block that can have the highest score, whatever the statistics are."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8
from lance_spark.kernels.text.build import put_varint

_BLOCK = 128
_GROUP = 32 * _BLOCK
_CODES = 256


@inlined
def _put_front(docs, freqs, codes, start, stop, most, out, place, out_size):
    """Writes the front of the documents [start, stop); the place after it, or -1.

    The front are pairs of a frequency and a length, both ascending: no document has a higher frequency and is shorter.
    """
    for code in range(_CODES):
        most[code] = 0
    for i in range(start, stop):
        code = np.int64(codes[docs[i]])
        most[code] = max(most[code], freqs[i])
    pairs = np.int64(0)
    freq = np.int64(0)
    for code in range(_CODES):
        if most[code] > freq:
            freq = np.int64(most[code])
            pairs += 1
    if place + 12 + 7 * pairs > out_size:
        return np.int64(-1)
    place = put_varint(out, place, np.int64(docs[stop - 1]))
    place = put_varint(out, place, pairs)
    freq = np.int64(0)
    before = np.int64(0)
    for code in range(_CODES):
        if most[code] > freq:
            is_next = code == before + 1
            step = (np.int64(most[code]) - freq - 1) << 1
            place = put_varint(out, place, step if is_next else step | 1)
            if not is_next:
                out[place] = code - before
                place += 1
            freq = np.int64(most[code])
            before = np.int64(code)
    return place


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def encode_impacts(docs_at, freqs_at, ends_at, num_terms, codes_at, most_at, out_at, out_size, out_ends_at):
    """Encodes the impacts of all terms: for each the front of each block, then of each group of 32 blocks.

    Args:
        docs_at, freqs_at: i32, the documents of each term and their frequencies.
        ends_at: i64[num_terms], where the documents of each term end.
        codes_at: u8, the code of the length of each document.
        most_at: i32[256], scratch.
        out_at, out_size: u8[out_size], filled.
        out_ends_at: i64, filled: where each front ends.

    Returns: the number of bytes; -1: there is no room for them.
    """
    docs = pointer_i32(docs_at)
    freqs = pointer_i32(freqs_at)
    ends = pointer_i64(ends_at)
    codes = pointer_u8(codes_at)
    most = pointer_i32(most_at)
    out = pointer_u8(out_at)
    out_ends = pointer_i64(out_ends_at)
    place = np.int64(0)
    front = np.int64(0)
    start = np.int64(0)
    for term in range(num_terms):
        stop = ends[term]
        size = np.int64(_BLOCK)
        while size <= _GROUP:
            first = start
            while first < stop:
                last = min(first + size, stop)
                place = _put_front(docs, freqs, codes, first, last, most, out, place, out_size)
                if place < 0:
                    return place
                out_ends[front] = place
                front += 1
                first = last
            size *= 32
        start = stop
    return place
