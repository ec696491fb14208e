"""Posting lists: blocks of document numbers and frequencies, and the positions of terms in documents.

Numbers are packed in lanes: 4 lanes for 128 numbers, 8 for 256. Number j has step j // lanes of lane j % lanes; the
bits of a lane are in every lanes-th 32-bit word, least significant bit first.

All functions return a negative number for bytes that contradict the format: -1: too short, -2: a value is out of range.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u32

_TOO_SHORT = -1
_OUT_OF_RANGE = -2


@inlined
def _u32(data, place):
    return (
        np.int64(data[place])
        | np.int64(data[place + 1]) << 8
        | np.int64(data[place + 2]) << 16
        | np.int64(data[place + 3]) << 24
    )


@inlined
def _unpacked(data, place, width, lanes, number):
    """Number `number` of a packed run that starts at `place`."""
    if width == 0:
        return np.int64(0)
    lane = number % lanes
    bit = number // lanes * width
    word = bit >> 5
    value = _u32(data, place + 4 * (word * lanes + lane)) >> (bit & 31)
    if (bit & 31) + width > 32:
        value |= _u32(data, place + 4 * ((word + 1) * lanes + lane)) << (32 - (bit & 31))
    return value & ((np.int64(1) << width) - 1)


@inlined
def _varint(data, place, stop):
    """(value, place after it); (-1, place) if it does not end in time or is over 32 bits."""
    value = np.int64(0)
    shift = 0
    while place < stop and shift < 35:
        byte = np.int64(data[place])
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= np.int64(1) << 32:
                return np.int64(-1), place
            return value, place
        shift += 7
    return np.int64(-1), place


@inlined
def _full_block(data, place, stop, lanes, docs, freqs, first, last, num_docs):
    """Decodes the block of `32 * lanes` documents at `place`; its last document, or an error."""
    block = 32 * lanes
    if place + 5 > stop:
        return _TOO_SHORT
    doc = _u32(data, place)
    width = np.int64(data[place + 4])
    place += 5
    if width > 32 or place + 4 * lanes * width + 1 > stop:
        return _TOO_SHORT
    for i in range(block):
        doc += _unpacked(data, place, width, lanes, i)
        if doc <= last or doc >= num_docs:
            return _OUT_OF_RANGE
        docs[first + i] = doc
        last = doc
    place += 4 * lanes * width
    width = np.int64(data[place])
    place += 1
    exceptions = np.int64(0)
    if lanes == 8:
        if place >= stop:
            return _TOO_SHORT
        exceptions = np.int64(data[place])
        place += 1
    if width > 32 or place + 4 * lanes * width + 2 * exceptions > stop:
        return _TOO_SHORT
    for i in range(block):
        freqs[first + i] = _unpacked(data, place, width, lanes, i)
    place += 4 * lanes * width
    for i in range(exceptions):
        high = np.int64(data[place + 2 * i + 1]) << width
        freqs[first + np.int64(data[place + 2 * i])] |= np.int32(high & 0x7FFFFFFF)
    return last


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
        return _OUT_OF_RANGE
    lanes = block // 32
    prefix = 4 if block == 128 else 0
    last = np.int64(-1)
    for number in range(num_blocks):
        place = ends[number] + prefix
        stop = ends[number + 1]
        if ends[number] < 0 or place > stop or stop > num_bytes:
            return _TOO_SHORT
        first = number * block
        size = min(block, count - first)
        if size == block:
            last = _full_block(data, place, stop, lanes, docs, freqs, first, last, num_docs)
            if last < 0:
                return last
        elif has_varints == 1:
            doc = np.int64(0)
            for i in range(size):
                delta, place = _varint(data, place, stop)
                if delta < 0:
                    return _TOO_SHORT
                doc += delta
                if doc <= last or doc >= num_docs:
                    return _OUT_OF_RANGE
                docs[first + i] = doc
                last = doc
            for i in range(size):
                freq, place = _varint(data, place, stop)
                if freq < 0:
                    return _TOO_SHORT
                freqs[first + i] = freq
        else:
            if place + 8 * size > stop:
                return _TOO_SHORT
            for i in range(size):
                doc = _u32(data, place + 4 * i)
                if doc <= last or doc >= num_docs:
                    return _OUT_OF_RANGE
                docs[first + i] = doc
                last = doc
                freqs[first + i] = _u32(data, place + 4 * (size + i))
        for i in range(size):
            if freqs[first + i] <= 0:
                return _OUT_OF_RANGE
    return 0


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
            return _TOO_SHORT
        first = number * block
        last = min(first + block, count)
        values = np.int64(0)
        for i in range(first, last):
            values += freqs[i]
        if values < 0 or done + values > out_size:
            return _OUT_OF_RANGE
        packed = values // 128 * 128
        for chunk in range(0, packed, 128):
            if place >= stop:
                return _TOO_SHORT
            width = np.int64(data[place])
            place += 1
            if width > 32 or place + 16 * width > stop:
                return _TOO_SHORT
            for i in range(128):
                out[done + chunk + i] = _unpacked(data, place, width, 4, i)
            place += 16 * width
        for i in range(packed, values):
            value, place = _varint(data, place, stop)
            if value < 0:
                return _TOO_SHORT
            out[done + i] = value
        for i in range(first, last):
            position = np.int64(0)
            for j in range(freqs[i]):
                position += out[done + j]
                if position < 0 or position > 0x7FFFFFFF:
                    return _OUT_OF_RANGE
                out[done + j] = position
            done += freqs[i]
    return 0 if done == out_size else _OUT_OF_RANGE


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
            return _TOO_SHORT
        values = np.int64(freqs[document])
        if _u32(data, place) != values or done + values > out_size:
            return _OUT_OF_RANGE
        place += 4
        packed = values // 128 * 128
        for chunk in range(0, packed, 128):
            if place + 5 > stop:
                return _TOO_SHORT
            position = _u32(data, place)
            width = np.int64(data[place + 4])
            place += 5
            if width > 32 or place + 16 * width > stop:
                return _TOO_SHORT
            for i in range(128):
                position += _unpacked(data, place, width, 4, i)
                if position > 0x7FFFFFFF:
                    return _OUT_OF_RANGE
                out[done + chunk + i] = position
            place += 16 * width
        if place + 4 * (values - packed) > stop:
            return _TOO_SHORT
        for i in range(packed, values):
            position = _u32(data, place)
            if position > 0x7FFFFFFF:
                return _OUT_OF_RANGE
            out[done + i] = position
            place += 4
        done += values
    return 0 if done == out_size else _OUT_OF_RANGE
