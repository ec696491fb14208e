"""FSST decompression: one-byte codes represent symbols of 1 to 8 bytes; 255 escapes one literal byte.

(Boncz, Neumann, Leis: FSST, VLDB 2020; `lance.encodings21.Fsst`.) Every string is compressed separately.

Addresses, lengths and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_u8, pointer_u32, pointer_u64
from lance_spark.kernels.words import offset_at, write_offset

ESCAPE = 255
"""The code before a literal byte."""

MAX_SYMBOL_BYTES = 8

SLACK_BYTES = 8
"""Bytes that `decode_symbols` may write after the last value."""

BATCH_CODES = 1 << 14
"""Codes that are decoded together regardless of value boundaries."""

_LONG_VALUE_CODES = 12
"""From this many codes per value, a loop per value is faster."""

_INSIDE_ESCAPE = 0xFFFFFFFF


@inlined
def _decode_codes(source, num_codes, symbols, lengths, target, places):
    """Decodes codes and writes the target position of each; returns the bytes written, -1 for an invalid code.

    For short values: a loop per value would end in an unpredictable branch, so they are decoded as one, and their ends
    are looked up in `places` afterwards.
    """
    symbol = pointer_u64(symbols)
    length = pointer_u8(lengths)
    codes = pointer_u8(source)
    place = pointer_u32(places)
    checked = np.int64(0)
    at = np.int64(0)
    i = np.int64(0)
    while i < num_codes:
        if i + 4 <= num_codes:
            word = pointer_u32(source + i)[0]
            if (~word - np.uint32(0x01010101)) & word & np.uint32(0x80808080) == 0:
                for k in range(4):
                    code = word & np.uint32(0xFF)
                    word >>= np.uint32(8)
                    place[i + k] = np.uint32(at)
                    pointer_u64(target + at)[0] = symbol[code]
                    size = np.int64(length[code])
                    checked |= size - 1
                    at += size
                i += 4
                continue
        place[i] = np.uint32(at)
        code = codes[i]
        if code == ESCAPE:
            if i + 1 == num_codes:
                return np.int64(-1)
            pointer_u8(target + at)[0] = codes[i + 1]
            place[i + 1] = np.uint32(_INSIDE_ESCAPE)
            at += 1
            i += 2
        else:
            pointer_u64(target + at)[0] = symbol[code]
            size = np.int64(length[code])
            checked |= size - 1
            at += size
            i += 1
    place[num_codes] = np.uint32(at)
    # A code without a symbol has length 0, which makes `checked` negative.
    return at if checked >= 0 else np.int64(-1)


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


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_symbols(
    offsets,
    offset_bytes,
    data,
    first_value,
    num_values,
    symbols,
    lengths,
    target_offset_bytes,
    target_offsets,
    target,
    capacity,
    places,
):
    """Decodes values from `first_value` while they certainly fit; returns the index of the next value.

    A negative result is ``~i``: one of the values of the batch that begins at i is corrupt.

    Args:
        offsets: num_values + 1 ascending offsets into `data`, of 4 or 8 bytes.
        symbols: u64[256]; symbol bytes, little-endian.
        lengths: u8[256]; 1 to 8, and 0 for codes without a symbol.
        target_offset_bytes: 4 or 8; 4 only if `capacity` is less than 2 GiB.
        target_offsets: num_values + 1 offsets; entry `first_value` is the position in `target` to continue at.
        capacity: bytes of `target`.
        places: u32[BATCH_CODES + 1], scratch.
    """
    at = offset_at(target_offsets, target_offset_bytes, first_value)
    place = pointer_u32(places)
    first = first_value
    while first < num_values:
        start = offset_at(offsets, offset_bytes, first)
        room = capacity - at - SLACK_BYTES
        stop = _batch_stop(offsets, offset_bytes, first, num_values, room)
        num_codes = offset_at(offsets, offset_bytes, stop) - start
        if num_codes * MAX_SYMBOL_BYTES > room:
            return first
        if num_codes >= _LONG_VALUE_CODES * (stop - first):
            for i in range(first, stop):
                source = data + offset_at(offsets, offset_bytes, i)
                source_stop = data + offset_at(offsets, offset_bytes, i + 1)
                written = decode_value(source, source_stop, symbols, lengths, target + at)
                if written < 0:
                    return ~i
                at += written
                write_offset(target_offsets, target_offset_bytes, i + 1, at)
        else:
            written = _decode_codes(data + start, num_codes, symbols, lengths, target + at, places)
            if written < 0:
                return ~first
            for i in range(first, stop):
                value_start = np.int64(place[offset_at(offsets, offset_bytes, i) - start])
                if value_start == _INSIDE_ESCAPE:
                    return ~i
                write_offset(target_offsets, target_offset_bytes, i, at + value_start)
            at += written
            write_offset(target_offsets, target_offset_bytes, stop, at)
        first = stop
    return num_values
