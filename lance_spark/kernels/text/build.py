"""Building posting lists: grouping tokens by term, and encoding blocks of 128 documents.

Returns of all functions: a number of bytes or entries; -1: there is no room for the result.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u32

_BLOCK = 128


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def group_by_term(terms_at, docs_at, positions_at, num_tokens, places_at, out_docs_at, out_positions_at):
    """Sorts tokens by term; tokens of one term keep their order.

    Args:
        terms_at, docs_at, positions_at: i32[num_tokens] each.
        places_at: i64, where the tokens of each term start in the result; changed to where they end.
        out_docs_at, out_positions_at: i32[num_tokens] each, filled.
    """
    terms = pointer_i32(terms_at)
    docs = pointer_i32(docs_at)
    positions = pointer_i32(positions_at)
    places = pointer_i64(places_at)
    out_docs = pointer_i32(out_docs_at)
    out_positions = pointer_i32(out_positions_at)
    for token in range(num_tokens):
        place = places[terms[token]]
        places[terms[token]] = place + 1
        out_docs[place] = docs[token]
        out_positions[place] = positions[token]
    return num_tokens


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def count_occurrences(docs_at, ends_at, num_terms, out_docs_at, out_freqs_at, out_ends_at):
    """Counts how often each document of a term occurs.

    Args:
        docs_at: i32, the documents of the tokens of each term, ascending.
        ends_at: i64[num_terms], where the tokens of each term end.
        out_docs_at, out_freqs_at: i32, as long as `docs_at`, filled with distinct documents and their frequencies.
        out_ends_at: i64[num_terms], filled: where the documents of each term end.
    """
    docs = pointer_i32(docs_at)
    ends = pointer_i64(ends_at)
    out_docs = pointer_i32(out_docs_at)
    out_freqs = pointer_i32(out_freqs_at)
    out_ends = pointer_i64(out_ends_at)
    found = np.int64(0)
    start = np.int64(0)
    for term in range(num_terms):
        first = found
        for token in range(start, ends[term]):
            if found > first and out_docs[found - 1] == docs[token]:
                out_freqs[found - 1] += 1
            else:
                out_docs[found] = docs[token]
                out_freqs[found] = 1
                found += 1
        start = ends[term]
        out_ends[term] = found
    return found


@inlined
def put_varint(out, place, value):
    while value >= 0x80:
        out[place] = value & 0x7F | 0x80
        value >>= 7
        place += 1
    out[place] = value
    return place + 1


@inlined
def _put_u32(out, place, value):
    out[place] = value & 0xFF
    out[place + 1] = value >> 8 & 0xFF
    out[place + 2] = value >> 16 & 0xFF
    out[place + 3] = value >> 24 & 0xFF


@inlined
def _width(largest):
    width = 0
    while largest >> width != 0:
        width += 1
    return width


@inlined
def _pack(values, start, is_delta, out, place):
    """Writes the width and the packed bits of 128 numbers, or of their differences; returns the place after them."""
    largest = np.int64(0)
    before = np.int64(values[start])
    for i in range(_BLOCK):
        value = np.int64(values[start + i])
        if is_delta:
            value, before = value - before, value
        largest |= value
    width = _width(largest)
    out[place] = width
    place += 1
    for i in range(16 * width):
        out[place + i] = 0
    before = np.int64(values[start])
    for i in range(_BLOCK):
        value = np.int64(values[start + i])
        if is_delta:
            value, before = value - before, value
        bit = i // 4 * width
        byte = place + 4 * ((bit >> 5) * 4 + i % 4)
        low = bit & 31
        shifted = value << low
        for k in range(4):
            out[byte + k] |= shifted >> (8 * k) & 0xFF
        if low + width > 32:
            for k in range(4):
                out[byte + 16 + k] |= shifted >> (32 + 8 * k) & 0xFF
    return place + 16 * width


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def encode_postings(docs_at, freqs_at, ends_at, num_terms, scores_at, out_at, out_size, out_ends_at):
    """Encodes the posting lists of all terms, block after block.

    Args:
        docs_at, freqs_at: i32, the documents of each term and their frequencies.
        ends_at: i64[num_terms], where the documents of each term end.
        scores_at: u32, the bits of the score of each block.
        out_at, out_size: u8[out_size], filled.
        out_ends_at: i64, filled: where each block ends.
    """
    docs = pointer_i32(docs_at)
    freqs = pointer_i32(freqs_at)
    ends = pointer_i64(ends_at)
    scores = pointer_u32(scores_at)
    out = pointer_u8(out_at)
    out_ends = pointer_i64(out_ends_at)
    place = np.int64(0)
    block = np.int64(0)
    start = np.int64(0)
    for term in range(num_terms):
        stop = ends[term]
        while start < stop:
            count = min(np.int64(_BLOCK), stop - start)
            if place + 16 + 10 * count > out_size:
                return -1
            _put_u32(out, place, np.int64(scores[block]))
            place += 4
            if count == _BLOCK:
                _put_u32(out, place, np.int64(docs[start]))
                place = _pack(docs, start, True, out, place + 4)
                place = _pack(freqs, start, False, out, place)
            else:
                before = np.int64(0)
                for i in range(start, start + count):
                    place = put_varint(out, place, np.int64(docs[i]) - before)
                    before = np.int64(docs[i])
                for i in range(start, start + count):
                    place = put_varint(out, place, np.int64(freqs[i]))
            out_ends[block] = place
            block += 1
            start += count
    return place


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def encode_positions(positions_at, freqs_at, ends_at, num_terms, deltas_at, out_at, out_size, out_ends_at):
    """Encodes the positions of all terms, a run of bytes for each block of their posting lists.

    Args:
        positions_at: i32, the positions of each term, document after document.
        freqs_at: i32, the frequencies of the documents of each term.
        ends_at: i64[num_terms], where the documents of each term end.
        deltas_at: i32, as long as `positions_at`, scratch.
        out_at, out_size: u8[out_size], filled.
        out_ends_at: i64, filled: where the run of each block ends.
    """
    positions = pointer_i32(positions_at)
    freqs = pointer_i32(freqs_at)
    ends = pointer_i64(ends_at)
    deltas = pointer_i32(deltas_at)
    out = pointer_u8(out_at)
    out_ends = pointer_i64(out_ends_at)
    place = np.int64(0)
    block = np.int64(0)
    start = np.int64(0)
    token = np.int64(0)
    for term in range(num_terms):
        stop = ends[term]
        while start < stop:
            count = min(np.int64(_BLOCK), stop - start)
            first = token
            for i in range(start, start + count):
                before = np.int64(0)
                for _ in range(freqs[i]):
                    deltas[token] = positions[token] - before
                    before = np.int64(positions[token])
                    token += 1
            if place + 6 * (token - first) + 64 > out_size:
                return -1
            packed = first + (token - first) // _BLOCK * _BLOCK
            for chunk in range(first, packed, _BLOCK):
                place = _pack(deltas, chunk, False, out, place)
            for i in range(packed, token):
                place = put_varint(out, place, np.int64(deltas[i]))
            out_ends[block] = place
            block += 1
            start += count
    return place
