"""Whole partitions of a text index: all posting lists at once, and their tokens in the order of the documents."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u32
from lance_spark.kernels.text.blocks import OUT_OF_RANGE, TOO_SHORT, decode_block, decode_positions_of_block


@inlined
def _has_blocks(count, num_blocks, block):
    return num_blocks == (count + block - 1) // block


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_lists(
    data_at, num_bytes, ends_at, list_ends_at, counts_at, num_lists, block, has_varints, num_docs, docs_at, freqs_at
):
    """Decodes the posting lists of all terms.

    Args:
        data_at, num_bytes: the blocks, one after the other.
        ends_at: i64, where they start and end.
        list_ends_at: i64[num_lists + 1], the first block of each list, checked by the caller.
        counts_at: i64[num_lists], documents of each list.
        block, has_varints, num_docs: as `decode_block`.
        docs_at, freqs_at: i32 with room for all documents, filled list after list.

    Returns: the sum of all frequencies, or an error.
    """
    data = pointer_u8(data_at)
    ends = pointer_i64(ends_at)
    list_ends = pointer_i64(list_ends_at)
    counts = pointer_i64(counts_at)
    docs = pointer_i32(docs_at)
    freqs = pointer_i32(freqs_at)
    place = np.int64(0)
    total = np.int64(0)
    for term in range(num_lists):
        first = list_ends[term]
        if not _has_blocks(counts[term], list_ends[term + 1] - first, block):
            return OUT_OF_RANGE
        last = np.int64(-1)
        left = counts[term]
        for number in range(first, list_ends[term + 1]):
            size = min(block, left)
            last = decode_block(
                data,
                ends[number],
                ends[number + 1],
                num_bytes,
                block,
                size,
                has_varints,
                num_docs,
                last,
                docs,
                freqs,
                place,
            )
            if last < 0:
                return last
            for i in range(place, place + size):
                total += freqs[i]
            place += size
            left -= size
    return total


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_all_positions(
    data_at, num_bytes, ends_at, starts_at, list_ends_at, counts_at, num_lists, block, freqs_at, out_at, out_size
):
    """Decodes the positions of all terms.

    Args:
        data_at, num_bytes: the runs of bytes of all terms, one after the other.
        ends_at: i64[num_lists + 1], where those of each term start and end.
        starts_at: u32, where the run of each block starts in those of its term.
        list_ends_at: i64[num_lists + 1], the first block of each list, checked by the caller.
        counts_at, freqs_at: i64[num_lists], documents of each list, and i32, their frequencies.
        out_at, out_size: i32[out_size], filled; `out_size` is the sum of the frequencies.

    Returns: 0 or an error.
    """
    data = pointer_u8(data_at)
    ends = pointer_i64(ends_at)
    starts = pointer_u32(starts_at)
    list_ends = pointer_i64(list_ends_at)
    counts = pointer_i64(counts_at)
    freqs = pointer_i32(freqs_at)
    out = pointer_i32(out_at)
    first = np.int64(0)
    done = np.int64(0)
    for term in range(num_lists):
        if not _has_blocks(counts[term], list_ends[term + 1] - list_ends[term], block):
            return OUT_OF_RANGE
        if ends[term] < 0 or ends[term + 1] > num_bytes:
            return TOO_SHORT
        left = counts[term]
        for number in range(list_ends[term], list_ends[term + 1]):
            place = ends[term] + np.int64(starts[number])
            stop = ends[term + 1]
            if number + 1 < list_ends[term + 1]:
                stop = ends[term] + np.int64(starts[number + 1])
            if place > stop or stop > ends[term + 1]:
                return TOO_SHORT
            size = min(block, left)
            done = decode_positions_of_block(data, place, stop, freqs, first, first + size, out, done, out_size)
            if done < 0:
                return done
            first += size
            left -= size
    return 0 if done == out_size else OUT_OF_RANGE


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def tokens_by_document(
    docs_at, freqs_at, positions_at, counts_at, num_lists, places_at, ends_at, out_terms_at, out_positions_at
):
    """The tokens of some documents, document after document; those of one document are ordered by list.

    Args:
        docs_at, freqs_at: i32, the documents of each term and their frequencies.
        positions_at: i32, the positions of each term, or 0.
        counts_at: i64[num_lists], documents of each term.
        places_at: i64, where the tokens of each document start in the result, changed to where they end; -1 for
            documents that are left out.
        ends_at: i64, where they have to end.
        out_terms_at, out_positions_at: i32, filled; positions only if there are some.

    Returns: 0; -2: a document has not as many tokens as `ends_at` says.
    """
    docs = pointer_i32(docs_at)
    freqs = pointer_i32(freqs_at)
    positions = pointer_i32(positions_at)
    counts = pointer_i64(counts_at)
    places = pointer_i64(places_at)
    ends = pointer_i64(ends_at)
    out_terms = pointer_i32(out_terms_at)
    out_positions = pointer_i32(out_positions_at)
    item = np.int64(0)
    token = np.int64(0)
    for term in range(num_lists):
        for _ in range(counts[term]):
            doc = docs[item]
            freq = np.int64(freqs[item])
            place = places[doc]
            if place >= 0:
                if place + freq > ends[doc]:
                    return OUT_OF_RANGE
                for i in range(freq):
                    out_terms[place + i] = term
                    if positions_at != 0:
                        out_positions[place + i] = positions[token + i]
                places[doc] = place + freq
            token += freq
            item += 1
    return 0
