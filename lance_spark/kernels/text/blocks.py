"""Single blocks of posting lists and of positions, for the kernels that decode some or all of them.

Numbers are packed in lanes: 4 lanes for 128 numbers, 8 for 256. Number j has step j // lanes of lane j % lanes; the
bits of a lane are in every lanes-th 32-bit word, least significant bit first.

All functions return a negative number for bytes that contradict the format: -1: too short, -2: a value is out of range.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, unpack_lanes

TOO_SHORT = -1
OUT_OF_RANGE = -2


@inlined
def read_u32(data, place):
    """The four bytes at `place` as a number."""
    return (
        np.int64(data[place])
        | np.int64(data[place + 1]) << 8
        | np.int64(data[place + 2]) << 16
        | np.int64(data[place + 3]) << 24
    )


@inlined
def unpack(data, place, width, lanes, out, first):
    """Unpacks `32 * lanes` numbers of `width` <= 32 bits at `place` to `out[first:]`."""
    if width == 0:
        for i in range(first, first + 32 * lanes):
            out[i] = 0
    else:
        for lane in range(0, lanes, 4):
            unpack_lanes(data, place + 4 * lane, width, lanes, out, first + lane)


@inlined
def varint(data, place, stop):
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
        return np.int64(TOO_SHORT)
    doc = read_u32(data, place)
    width = np.int64(data[place + 4])
    place += 5
    if width > 32 or place + 4 * lanes * width + 1 > stop:
        return np.int64(TOO_SHORT)
    unpack(data, place, width, lanes, docs, first)
    # Checked as a whole: a test of each document costs more than its sum.
    doc += np.int64(docs[first]) & 0xFFFFFFFF
    docs[first] = doc
    is_wrong = doc <= last
    for i in range(first + 1, first + block):
        delta = np.int64(docs[i]) & 0xFFFFFFFF
        is_wrong |= delta == 0
        doc += delta
        docs[i] = doc
    if is_wrong or doc >= num_docs:
        return np.int64(OUT_OF_RANGE)
    last = doc
    place += 4 * lanes * width
    width = np.int64(data[place])
    place += 1
    exceptions = np.int64(0)
    if lanes == 8:
        if place >= stop:
            return np.int64(TOO_SHORT)
        exceptions = np.int64(data[place])
        place += 1
    if width > 32 or place + 4 * lanes * width + 2 * exceptions > stop:
        return np.int64(TOO_SHORT)
    unpack(data, place, width, lanes, freqs, first)
    place += 4 * lanes * width
    for i in range(exceptions):
        high = np.int64(data[place + 2 * i + 1]) << width
        freqs[first + np.int64(data[place + 2 * i])] |= np.int32(high & 0x7FFFFFFF)
    return last


@inlined
def _varint_block(data, place, stop, docs, freqs, first, size, last, num_docs):
    doc = np.int64(0)
    for i in range(first, first + size):
        delta, place = varint(data, place, stop)
        if delta < 0:
            return np.int64(TOO_SHORT)
        doc += delta
        if doc <= last or doc >= num_docs:
            return np.int64(OUT_OF_RANGE)
        docs[i] = doc
        last = doc
    for i in range(first, first + size):
        freq, place = varint(data, place, stop)
        if freq < 0:
            return np.int64(TOO_SHORT)
        freqs[i] = freq
    return last


@inlined
def _fixed_block(data, place, stop, docs, freqs, first, size, last, num_docs):
    if place + 8 * size > stop:
        return np.int64(TOO_SHORT)
    for i in range(size):
        doc = read_u32(data, place + 4 * i)
        if doc <= last or doc >= num_docs:
            return np.int64(OUT_OF_RANGE)
        docs[first + i] = doc
        last = doc
        freqs[first + i] = read_u32(data, place + 4 * (size + i))
    return last


@inlined
def decode_block(data, place, stop, num_bytes, block, size, has_varints, num_docs, last, docs, freqs, first):
    """Decodes a block of `size` documents to `docs[first:]` and `freqs[first:]`.

    Args:
        place, stop: where its bytes are in `data`, which has `num_bytes`.
        block: documents of a full block, 128 or 256. Blocks of 128 begin with a score of 4 bytes.
        has_varints: 1 if a partial block holds varints, 0 for 32-bit numbers.
        num_docs: documents of the index; those of a list ascend from `last` and are smaller.

    Returns: its last document, or an error.
    """
    start = place + (4 if block == 128 else 0)
    if place < 0 or start > stop or stop > num_bytes:
        return np.int64(TOO_SHORT)
    if size == block:
        last = _full_block(data, start, stop, block // 32, docs, freqs, first, last, num_docs)
    elif has_varints == 1:
        last = _varint_block(data, start, stop, docs, freqs, first, size, last, num_docs)
    else:
        last = _fixed_block(data, start, stop, docs, freqs, first, size, last, num_docs)
    if last >= 0:
        lowest = np.int32(1)
        for i in range(first, first + size):
            lowest = min(lowest, freqs[i])
        if lowest <= 0:
            return np.int64(OUT_OF_RANGE)
    return last


@inlined
def decode_positions_of_block(data, place, stop, freqs, first, last, out, done, out_size):
    """Decodes the positions of the documents [first, last) with these `freqs` to `out[done:out_size]`.

    Args:
        place, stop: their bytes.

    Returns: where the positions end in `out`, or an error.
    """
    values = np.int64(0)
    for i in range(first, last):
        values += freqs[i]
    if values < 0 or done + values > out_size:
        return np.int64(OUT_OF_RANGE)
    packed = values // 128 * 128
    for chunk in range(0, packed, 128):
        if place >= stop:
            return np.int64(TOO_SHORT)
        width = np.int64(data[place])
        place += 1
        if width > 32 or place + 16 * width > stop:
            return np.int64(TOO_SHORT)
        unpack(data, place, width, 4, out, done + chunk)
        place += 16 * width
    for i in range(done + packed, done + values):
        value, place = varint(data, place, stop)
        if value < 0:
            return np.int64(TOO_SHORT)
        out[i] = value
    for i in range(first, last):
        position = np.int64(0)
        for j in range(done, done + freqs[i]):
            position += np.int64(out[j])
            if position < 0 or position > 0x7FFFFFFF:
                return np.int64(OUT_OF_RANGE)
            out[j] = position
        done += freqs[i]
    return done
