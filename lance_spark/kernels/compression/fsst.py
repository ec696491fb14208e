"""FSST decompression: one-byte codes represent symbols of 1 to 8 bytes; 255 escapes one literal byte.

(Boncz, Neumann, Leis: FSST, VLDB 2020; `lance.encodings21.Fsst`.) Every string is compressed separately.

Addresses, lengths and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8, pointer_u32, pointer_u64
from lance_spark.kernels.words import offset_at, write_offset

ESCAPE = 255
"""The code before a literal byte."""

MAX_SYMBOL_BYTES = 8

SLACK_BYTES = 8
"""Bytes that `decode_symbols` may write after the last value."""

BATCH_CODES = 1 << 14
"""Codes that are decoded together regardless of value boundaries."""

_SAMPLED_CODES = 4096

_INSIDE_ESCAPE = 0xFFFFFFFF


_ONES = 0x0101010101010101
_TOPS = 0x8080808080808080


@inlined
def _decode_codes(source, num_codes, symbols, lengths, num_symbols, target, places, literals):
    """Decodes codes and writes the target position of each; returns the bytes written, -1 for an invalid code.

    A loop per value would end in an unpredictable branch, so values are decoded as one, and their ends are looked up in
    `places` afterwards. The bits of escaped bytes are added to the byte at `literals`.
    """
    symbol = pointer_u64(symbols)
    length = pointer_u8(lengths)
    codes = pointer_u8(source)
    place = pointer_u32(places)
    literal = pointer_u8(literals)
    # The top bit of a byte of `sums` and the byte, or either of them, tell whether it is at least `num_symbols`.
    tops = np.uint64(_TOPS)
    either = tops if num_symbols < 128 else np.uint64(0)
    bound = np.uint64((128 if num_symbols < 128 else 256) - num_symbols) * np.uint64(_ONES)
    at = np.int64(0)
    i = np.int64(0)
    while i < num_codes:
        if i + 8 <= num_codes:
            word = pointer_u64(source + i)[0]
            sums = (word & ~tops) + bound
            if ((sums & word) | ((sums | word) & either)) & tops == 0:
                for k in range(8):
                    code = word & np.uint64(0xFF)
                    word >>= np.uint64(8)
                    place[i + k] = np.uint32(at)
                    pointer_u64(target + at)[0] = symbol[code]
                    at += np.int64(length[code])
                i += 8
                continue
        place[i] = np.uint32(at)
        code = np.int64(codes[i])
        if code < num_symbols:
            pointer_u64(target + at)[0] = symbol[code]
            at += np.int64(length[code])
            i += 1
        else:
            if code != ESCAPE or i + 1 == num_codes:
                return np.int64(-1)
            pointer_u8(target + at)[0] = codes[i + 1]
            literal[0] |= codes[i + 1]
            place[i + 1] = np.uint32(_INSIDE_ESCAPE)
            at += 1
            i += 2
    place[num_codes] = np.uint32(at)
    return at


@inlined
def decode_value(source, stop, symbols, lengths, target):
    """Decodes one value; returns the bytes written, -1 for an invalid code."""
    symbol = pointer_u64(symbols)
    length = pointer_u8(lengths)
    checked = np.int64(0)
    at = np.int64(0)
    while source < stop:
        if source + 4 <= stop:
            word = pointer_u32(source)[0]
            if (~word - np.uint32(0x01010101)) & word & np.uint32(0x80808080) == 0:
                for _ in range(4):
                    code = word & np.uint32(0xFF)
                    word >>= np.uint32(8)
                    pointer_u64(target + at)[0] = symbol[code]
                    size = np.int64(length[code])
                    checked |= size - 1
                    at += size
                source += 4
                continue
        code = pointer_u8(source)[0]
        if code == ESCAPE:
            if source + 1 == stop:
                return np.int64(-1)
            pointer_u8(target + at)[0] = pointer_u8(source)[1]
            at += 1
            source += 2
        else:
            pointer_u64(target + at)[0] = symbol[code]
            size = np.int64(length[code])
            checked |= size - 1
            at += size
            source += 1
    return at if checked >= 0 else np.int64(-1)


@inlined
def _batch_stop(offsets, offset_bytes, first, num_values, room):
    """The end of a batch from `first`: values of at most `BATCH_CODES` codes that certainly fit, but at least one."""
    start = offset_at(offsets, offset_bytes, first)
    most = min(BATCH_CODES, room // MAX_SYMBOL_BYTES)
    stop = min(num_values, first + BATCH_CODES)
    while stop > first + 1 and offset_at(offsets, offset_bytes, stop) - start > most:
        stop = first + (stop - first) // 2
    return stop


@inlined
def _never_fall(offset, num_values):
    falls = np.uint64(0)
    for i in range(np.uint64(num_values)):
        falls |= np.uint64(offset[i + np.uint64(1)] < offset[i])
    return falls == 0


@inlined
def _are_offsets(offsets, offset_bytes, num_values, least, most):
    """Whether the num_values + 1 offsets never fall, from at least `least` to at most `most`."""
    if offset_at(offsets, offset_bytes, 0) < least or offset_at(offsets, offset_bytes, num_values) > most:
        return False
    if offset_bytes == 4:
        return _never_fall(pointer_u32(offsets), num_values)
    return _never_fall(pointer_i64(offsets), num_values)


@kernel("int64(int64, int64, int64)")
def expected_bytes(chunks, num_chunks, lengths):
    """Estimates the decoded bytes of chunks, see `decode_symbols`, from samples of all of them."""
    codes = pointer_i64(chunks + 2 * 8 * num_chunks)
    end = pointer_i64(chunks + 3 * 8 * num_chunks)
    length = pointer_u8(lengths)
    num_codes = sampled = seen = np.int64(0)
    for i in range(num_chunks):
        num_codes += end[i] - codes[i]
    step = np.int64(num_codes // _SAMPLED_CODES + 1)
    skipped = np.int64(0)
    for i in range(num_chunks):
        at = codes[i] + skipped
        while at < end[i]:
            sampled += np.int64(length[pointer_u8(at)[0]])
            seen += 1
            at += step
        skipped = at - end[i]
    return num_codes * sampled // max(seen, 1)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_symbols(
    chunks,
    num_chunks,
    offset_bytes,
    first_value,
    symbols,
    lengths,
    num_symbols,
    target_offset_bytes,
    target_offsets,
    target,
    capacity,
    places,
    literals,
):
    """Decodes values of chunks from `first_value` while they certainly fit; returns the index of the next value.

    A negative result is ``~i``: one of the values from i on is corrupt, in the same chunk.

    Args:
        chunks: ``int64[5, num_chunks]``: of each chunk the address of its n + 1 offsets, of offset 0, of its codes and
            of their end, and n.
        offset_bytes: 4 or 8.
        symbols: u64[256]; symbol bytes, little-endian.
        lengths: u8[256]; 1 to 8, and 0 for codes without a symbol.
        num_symbols: the codes below have one, at most 255.
        target_offset_bytes: 4 or 8; 4 only if `capacity` is less than 2 GiB.
        target_offsets: offsets of all values; entry `first_value` is the position in `target` to continue at.
        capacity: bytes of `target`.
        places: u32[BATCH_CODES + 1], scratch.
        literals: u8[1], gets the bits of all escaped bytes.
    """
    offsets_of = pointer_i64(chunks)
    origin = pointer_i64(chunks + 8 * num_chunks)
    codes_of = pointer_i64(chunks + 2 * 8 * num_chunks)
    end = pointer_i64(chunks + 3 * 8 * num_chunks)
    count = pointer_i64(chunks + 4 * 8 * num_chunks)
    place = pointer_u32(places)
    at = offset_at(target_offsets, target_offset_bytes, first_value)
    before = np.int64(0)
    for i in range(num_chunks):
        n = count[i]
        first = max(first_value - before, np.int64(0))
        offsets = offsets_of[i]
        least, most = codes_of[i] - origin[i], end[i] - origin[i]
        if first < n and not _are_offsets(offsets, offset_bytes, n, least, most):
            return ~(before + first)
        while first < n:
            start = offset_at(offsets, offset_bytes, first)
            room = capacity - at - SLACK_BYTES
            stop = _batch_stop(offsets, offset_bytes, first, n, room)
            num_codes = offset_at(offsets, offset_bytes, stop) - start
            if num_codes * MAX_SYMBOL_BYTES > room:
                return before + first
            codes = origin[i] + start
            if num_codes > BATCH_CODES:
                # One value, for which there are too few places; whether its literals are below 128 is not known.
                place[0] = np.uint32(0)
                pointer_u8(literals)[0] = np.uint8(0xFF)
                written = decode_value(codes, codes + num_codes, symbols, lengths, target + at)
            else:
                written = _decode_codes(codes, num_codes, symbols, lengths, num_symbols, target + at, places, literals)
            if written < 0:
                return ~(before + first)
            for k in range(first, stop):
                value_start = np.int64(place[offset_at(offsets, offset_bytes, k) - start])
                if value_start == _INSIDE_ESCAPE:
                    return ~(before + k)
                write_offset(target_offsets, target_offset_bytes, before + k, at + value_start)
            at += written
            write_offset(target_offsets, target_offset_bytes, before + stop, at)
            first = stop
        before += n
    return before
