"""FSST: byte strings as codes of one byte that stand for symbols of 1 to 8 bytes; 255 escapes one literal byte.

(Boncz, Neumann, Leis: FSST, VLDB 2020; `lance.encodings21.Fsst`.) Every string is compressed on its own.

Addresses, lengths and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8, pointer_u32, pointer_u64

ESCAPE = 255
"""The code that says: the next byte is itself."""

MAX_SYMBOL_BYTES = 8

SLACK_BYTES = 8
"""Bytes that `decode_symbols` may write after the last value."""


@inlined
def _offset_at(address, offset_bytes, index):
    if offset_bytes == 4:
        return np.int64(pointer_u32(address)[index])
    return pointer_i64(address)[index]


@inlined
def _decode_value(source, stop, symbols, lengths, target):
    """Returns the end of what was written, 0 if there is a code without symbol or an escape without its literal."""
    symbol = pointer_u64(symbols)
    length = pointer_u8(lengths)
    checked = np.int64(0)
    while source < stop:
        if source + 4 <= stop:
            codes = pointer_u32(source)[0]
            escapes = (~codes - np.uint32(0x01010101)) & codes & np.uint32(0x80808080)
            if escapes == 0:
                for _ in range(4):
                    code = codes & np.uint32(0xFF)
                    codes >>= np.uint32(8)
                    pointer_u64(target)[0] = symbol[code]
                    size = np.int64(length[code])
                    checked |= size - 1
                    target += size
                source += 4
                continue
        code = pointer_u8(source)[0]
        if code == ESCAPE:
            if source + 1 == stop:
                return np.int64(0)
            pointer_u8(target)[0] = pointer_u8(source)[1]
            source += 2
            target += 1
        else:
            pointer_u64(target)[0] = symbol[code]
            size = np.int64(length[code])
            checked |= size - 1
            target += size
            source += 1
    # A code without symbol has length 0, which makes `checked` negative.
    return target if checked >= 0 else np.int64(0)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
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
):
    """Decodes the values from `first_value` on while they surely fit; returns the number of the value to go on with.

    A negative result is ``~i``: value i is corrupt.

    Args:
        offsets: num_values + 1 rising offsets into `data`, of 4 or 8 bytes.
        symbols: u64[256]; symbol bytes, the first in the low byte.
        lengths: u8[256]; 1 to 8, and 0 for codes without symbol.
        target_offset_bytes: 4 or 8; 4 only if `capacity` is less than 2 GiB.
        target_offsets: num_values + 1 offsets; entry `first_value` says where in `target` to go on.
        capacity: bytes of `target`.
    """
    out_offset = pointer_i64(target_offsets)
    out_offset_32 = pointer_u32(target_offsets)
    at = _offset_at(target_offsets, target_offset_bytes, first_value)
    for i in range(first_value, num_values):
        start = _offset_at(offsets, offset_bytes, i)
        stop = _offset_at(offsets, offset_bytes, i + 1)
        if at + (stop - start) * MAX_SYMBOL_BYTES + SLACK_BYTES > capacity:
            return i
        end = _decode_value(data + start, data + stop, symbols, lengths, target + at)
        if end == 0:
            return ~i
        at = end - target
        if target_offset_bytes == 4:
            out_offset_32[i + 1] = np.uint32(at)
        else:
            out_offset[i + 1] = at
    return num_values
