"""Posting lists: blocks of document numbers and frequencies, and the positions of terms in documents.

All functions return a negative number for bytes that contradict the format: -1: too short, -2: a value is out of range.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_f32, pointer_i32, pointer_i64, pointer_u8, pointer_u32
from lance_spark.kernels.text.blocks import (
    OUT_OF_RANGE,
    TOO_SHORT,
    decode_block,
    decode_positions_of_block,
    read_u32,
    unpack,
)


@inlined
def weight_of(freq, norm):
    """BM25 term frequency weight of `freq` occurrences in a document; `norm` grows with the length of the document.

    In 32-bit floating point and in this order, as `index.text.scoring` says.
    """
    occurrences = np.float32(freq)
    return (np.float32(1.2) + np.float32(1)) * occurrences / (occurrences + norm)


@kernel("int64(int64, int64, float32, int64)")
def norms_of_lengths(lengths_at, count, average, norms_at):
    """k1 * (1 - b + b * length / average) for each length, in 32-bit floating point and in this order.

    Args:
        lengths_at: u32[count], the terms of documents.
        average: of the lengths of all documents.
        norms_at: f32[count], filled.

    Returns: 0.
    """
    lengths = pointer_u32(lengths_at)
    norms = pointer_f32(norms_at)
    rest = np.float32(1) - np.float32(0.75)
    for i in range(count):
        share = np.float32(lengths[i]) * np.float32(0.75) / average
        norms[i] = (share + rest) * np.float32(1.2)
    return np.int64(0)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_postings(data_at, num_bytes, ends_at, num_blocks, count, block, has_varints, num_docs, docs_at, freqs_at):
    """Decodes the blocks of one posting list.

    Args:
        data_at, num_bytes: the blocks, one after the other.
        ends_at: i64[num_blocks + 1], where they start and end.
        count: documents of the list.
        block: documents of a full block, 128 or 256. Blocks of 128 begin with a score of 4 bytes.
        has_varints: 1 if the last, partial block holds varints, 0 for 32-bit numbers.
        num_docs: documents of the index; numbers of documents ascend and are smaller.
        docs_at, freqs_at: i32[count] each, filled.

    Returns: 0 or an error.
    """
    data = pointer_u8(data_at)
    ends = pointer_i64(ends_at)
    docs = pointer_i32(docs_at)
    freqs = pointer_i32(freqs_at)
    if num_blocks != (count + block - 1) // block:
        return OUT_OF_RANGE
    last = np.int64(-1)
    for number in range(num_blocks):
        first = number * block
        size = min(block, count - first)
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
            first,
        )
        if last < 0:
            return last
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def measure_blocks(
    data_at,
    num_bytes,
    ends_at,
    num_blocks,
    count,
    block,
    has_varints,
    num_docs,
    norms_at,
    docs_at,
    freqs_at,
    bits_at,
    bounds_at,
):
    """Decodes the blocks of one posting list one by one and keeps what tells whether a search needs them.

    Args:
        data_at .. num_docs: as `decode_postings`.
        norms_at: f32[num_docs], see `weight_of`.
        docs_at, freqs_at: i32[block] each, scratch.
        bits_at: u8[(num_docs + 7) // 8] of 0: the bits of the documents are set, those of a byte from the lowest on; 0
            for none.
        bounds_at: f32[1 + 4 * num_blocks], filled: the highest weight of all; then for each block the highest weight in
            it, for each the lowest of the norms in it, and, as i32, for each its first and for each its last document.

    Returns: the largest sum of the frequencies of a block, or an error.
    """
    data = pointer_u8(data_at)
    ends = pointer_i64(ends_at)
    norms = pointer_f32(norms_at)
    docs = pointer_i32(docs_at)
    freqs = pointer_i32(freqs_at)
    bits = pointer_u8(bits_at)
    highest = pointer_f32(bounds_at)
    bounds = pointer_f32(bounds_at + 4)
    lowest_norms = pointer_f32(bounds_at + 4 + 4 * num_blocks)
    firsts = pointer_i32(bounds_at + 4 + 8 * num_blocks)
    lasts = pointer_i32(bounds_at + 4 + 12 * num_blocks)
    if num_blocks != (count + block - 1) // block:
        return OUT_OF_RANGE
    last = np.int64(-1)
    most = np.int64(0)
    highest[0] = np.float32(0)
    for number in range(num_blocks):
        size = min(block, count - number * block)
        last = decode_block(
            data, ends[number], ends[number + 1], num_bytes, block, size, has_varints, num_docs, last, docs, freqs, 0
        )
        if last < 0:
            return last
        firsts[number] = docs[0]
        lasts[number] = last
        best = np.float32(0)
        lowest = norms[docs[0]]
        total = np.int64(0)
        if bits_at != 0:
            for i in range(size):
                bits[docs[i] >> 3] |= np.uint8(1 << (docs[i] & 7))
        for i in range(size):
            norm = norms[docs[i]]
            best = max(best, weight_of(freqs[i], norm))
            lowest = min(lowest, norm)
            total += freqs[i]
        bounds[number] = best
        lowest_norms[number] = lowest
        highest[0] = max(highest[0], best)
        most = max(most, total)
    return most


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_positions(data_at, num_bytes, starts_at, num_blocks, freqs_at, count, block, out_at, out_size):
    """Decodes the positions of one posting list.

    Args:
        data_at, num_bytes: a run of bytes for each block of the list.
        starts_at: u32[num_blocks], where the runs start.
        freqs_at, count: i32[count], the frequencies of the list.
        block: documents of a full block.
        out_at, out_size: i32[out_size], filled with the positions, document after document; `out_size` is the sum of
            the frequencies.

    Returns: 0 or an error.
    """
    data = pointer_u8(data_at)
    starts = pointer_u32(starts_at)
    freqs = pointer_i32(freqs_at)
    out = pointer_i32(out_at)
    done = np.int64(0)
    for number in range(num_blocks):
        place = np.int64(starts[number])
        stop = num_bytes
        if number + 1 < num_blocks:
            stop = np.int64(starts[number + 1])
        if place > stop or stop > num_bytes:
            return TOO_SHORT
        first = number * block
        last = min(first + block, count)
        done = decode_positions_of_block(data, place, stop, freqs, first, last, out, done, out_size)
        if done < 0:
            return done
    return 0 if done == out_size else OUT_OF_RANGE


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_document_positions(data_at, num_bytes, ends_at, blobs_at, freqs_at, count, out_at, out_size):
    """Decodes the positions of a posting list that are stored document by document.

    A document has a blob with the number of positions, then a blob for each 128 of them, then one with the rest.

    Args:
        data_at, num_bytes: the blobs, one after the other.
        ends_at: i64, where blobs start and end.
        blobs_at: i64[count + 1], the first blob of each document, checked by the caller.
        freqs_at, count, out_at, out_size: as `decode_positions`.

    Returns: 0 or an error.
    """
    data = pointer_u8(data_at)
    ends = pointer_i64(ends_at)
    blobs = pointer_i64(blobs_at)
    freqs = pointer_i32(freqs_at)
    out = pointer_i32(out_at)
    done = np.int64(0)
    for document in range(count):
        place = ends[blobs[document]]
        stop = ends[blobs[document + 1]]
        if place < 0 or place + 4 > stop or stop > num_bytes:
            return TOO_SHORT
        values = np.int64(freqs[document])
        if read_u32(data, place) != values or done + values > out_size:
            return OUT_OF_RANGE
        place += 4
        packed = values // 128 * 128
        for chunk in range(0, packed, 128):
            if place + 5 > stop:
                return TOO_SHORT
            position = read_u32(data, place)
            width = np.int64(data[place + 4])
            place += 5
            if width > 32 or place + 16 * width > stop:
                return TOO_SHORT
            unpack(data, place, width, 4, out, done + chunk)
            for i in range(done + chunk, done + chunk + 128):
                position += np.int64(out[i]) & 0xFFFFFFFF
                if position > 0x7FFFFFFF:
                    return OUT_OF_RANGE
                out[i] = position
            place += 16 * width
        if place + 4 * (values - packed) > stop:
            return TOO_SHORT
        for i in range(packed, values):
            position = read_u32(data, place)
            if position > 0x7FFFFFFF:
                return OUT_OF_RANGE
            out[done + i] = position
            place += 4
        done += values
    return 0 if done == out_size else OUT_OF_RANGE
