"""FSST compression: counts for the selection of symbols, and encoding of byte strings.

A *matcher* finds the longest symbol at a position with three tables:

* ``heads``: u64[`HEAD_SLOTS`, 2], for symbols of 3 to 8 bytes, at the hash of their first 3 bytes: the symbol, and
  ``length << 16 | code``; 0 for empty slots. Of symbols with the same slot only one is included.
* ``pairs``: u32[65536], the same for two bytes: a symbol of 2 bytes, else the entry of ``singles`` for the first.
* ``singles``: u32[256], the same for one byte; code 256 + byte if it has no symbol.

(Boncz, Neumann, Leis: FSST, VLDB 2020, sections 4 and 5.) Addresses, lengths and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8, pointer_u16, pointer_u32, pointer_u64
from lance_spark.kernels.words import offset_at, write_offset

HEAD_SLOTS = 4096
LITERAL = 256
"""Codes from this one are single bytes without a symbol."""

ROOM_BYTES = 32
_LONG_BYTES = 64


@inlined
def head_slot(word):
    """The slot in `heads` of a symbol that begins with the low 3 bytes of `word`."""
    head = np.uint64(word) & np.uint64(0xFFFFFF)
    return (head * np.uint64(2971215073) >> np.uint64(15)) & np.uint64(4095)


@inlined
def _word_at(address, data_stop):
    """The 8 bytes at `address`; zeros after the end of the data."""
    if address + 8 <= data_stop:
        return pointer_u64(address)[0]
    word = np.uint64(0)
    for i in range(data_stop - address):
        word |= np.uint64(pointer_u8(address)[i]) << np.uint64(8 * i)
    return word


@inlined
def _longest(word, left, heads, pairs, singles):
    """``length << 16 | code`` of the longest symbol of at most `left` bytes that is a prefix of `word`."""
    if left >= 3:
        slot = head_slot(word)
        entry = pointer_u64(heads)[2 * slot + np.uint64(1)]
        length = np.int64(entry >> np.uint64(16))
        if length != 0 and length <= left:
            mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - 8 * length)
            if (word & mask) == pointer_u64(heads)[2 * slot]:
                return np.int64(entry)
    if left >= 2:
        return np.int64(pointer_u32(pairs)[word & np.uint64(0xFFFF)])
    return np.int64(pointer_u32(singles)[word & np.uint64(0xFF)])


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def count_codes(offsets, num_values, data, heads, pairs, singles, code_counts, pair_counts):
    """Counts the codes of the values, and adjacent pairs of codes; returns the bytes of the codes.

    A symbol also counts as its first byte, which would be used if the symbol were not selected again.

    Args:
        offsets: int64[num_values + 1].
        code_counts: int64[512].
        pair_counts: u32[512, 512].
    """
    offset = pointer_i64(offsets)
    counts = pointer_i64(code_counts)
    together = pointer_u32(pair_counts)
    for i in range(512):
        counts[i] = 0
    for i in range(np.uint64(512 * 512)):
        together[i] = 0
    data_stop = data + offset[num_values]
    total = np.int64(0)
    for i in range(num_values):
        at = data + offset[i]
        stop = data + offset[i + 1]
        before = np.int64(-1)
        while at < stop:
            word = _word_at(at, data_stop)
            entry = _longest(word, stop - at, heads, pairs, singles)
            code = entry & 0xFFFF
            length = entry >> 16
            counts[code] += 1
            total += 1
            if code >= LITERAL:
                total += 1
            if before >= 0:
                together[before * 512 + code] += 1
                if length > 1:
                    together[before * 512 + LITERAL + np.int64(word & np.uint64(0xFF))] += 1
            if length > 1:
                counts[LITERAL + np.int64(word & np.uint64(0xFF))] += 1
            before = code
            at += length
    return total


@kernel("int64(int64, int64, int64, int64)")
def list_pairs(code_counts, pair_counts, least, target):
    """Lists the pairs of codes that `count_codes` counted at least `least` times; returns their number.

    `target` is int64[512 * 512, 3]: first code, second code, count.
    """
    counts = pointer_i64(code_counts)
    together = pointer_u32(pair_counts)
    out = pointer_i64(target)
    listed = 0
    for first in range(512):
        if counts[first] == 0:
            continue
        for second in range(512):
            seen = np.int64(together[first * 512 + second])
            if seen >= least:
                out[listed] = first
                out[listed + 1] = second
                out[listed + 2] = seen
                listed += 3
    return listed // 3


@inlined
def _encode_rest(at, stop, data_stop, heads, pairs, singles, target):
    """Writes the codes of the bytes from `at` on; returns where they end."""
    while at < stop:
        word = _word_at(at, data_stop)
        entry = _longest(word, stop - at, heads, pairs, singles)
        code = entry & 0xFFFF
        if code >= LITERAL:
            pointer_u8(target)[0] = np.uint8(255)
            pointer_u8(target)[1] = np.uint8(code - LITERAL)
            target += 2
        else:
            pointer_u8(target)[0] = np.uint8(code)
            target += 1
        at += entry >> 16
    return target


@inlined
def _encode_one(at, heads, pairs, target):
    """Writes one code of at least 8 bytes, without a branch; returns where the next bytes and the next code begin."""
    word = pointer_u64(at)[0]
    slot = head_slot(word)
    entry = pointer_u64(heads)[2 * slot + np.uint64(1)]
    other_bits = np.uint64(64) - ((entry >> np.uint64(13)) & np.uint64(0x78))
    differing = (word ^ pointer_u64(heads)[2 * slot]) << (other_bits & np.uint64(63))
    of_pair = np.uint64(pointer_u32(pairs)[word & np.uint64(0xFFFF)])
    entry = entry if entry != 0 and differing == 0 else of_pair
    code = entry & np.uint64(0xFF)
    is_literal = (entry >> np.uint64(8)) & np.uint64(1)
    pointer_u16(target)[0] = np.uint16(code << np.uint64(8) | np.uint64(255) if is_literal else code)
    return at + np.int64(entry >> np.uint64(16)), target + np.int64(np.uint64(1) + is_literal)


@inlined
def _moved(target, source, num_bytes):
    """Moves bytes down, in words; returns where they end."""
    for i in range(0, num_bytes, 8):
        pointer_u64(target + i)[0] = pointer_u64(source + i)[0]
    return target + num_bytes


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def encode_symbols(offsets, offset_bytes, num_values, data, heads, pairs, singles, target_offsets, target):
    """Replaces every value by its codes; returns the bytes written, at most twice the bytes read.

    Four long values are encoded side by side: the next bytes of a value are known only when its code is.

    Args:
        offsets: num_values + 1 offsets of 4 or 8 bytes.
        target_offsets: as many offsets of the same width.
        target: room for twice the bytes read, and `ROOM_BYTES` more.
    """
    data_stop = data + offset_at(offsets, offset_bytes, num_values)
    end = target
    i = np.int64(0)
    while i < num_values:
        first = data + offset_at(offsets, offset_bytes, i)
        second = data + offset_at(offsets, offset_bytes, i + 1)
        write_offset(target_offsets, offset_bytes, i, end - target)
        if i + 4 > num_values or data + offset_at(offsets, offset_bytes, i + 4) - first < 4 * _LONG_BYTES:
            end = _encode_rest(first, second, data_stop, heads, pairs, singles, end)
            i += 1
            continue
        third = data + offset_at(offsets, offset_bytes, i + 2)
        fourth = data + offset_at(offsets, offset_bytes, i + 3)
        stop = data + offset_at(offsets, offset_bytes, i + 4)
        # Each begins behind the most that those before can take, and a word, because they are moved by words.
        begin_1, begin_2, begin_3 = (
            end + 2 * (second - first) + 8, end + 2 * (third - first) + 16, end + 2 * (fourth - first) + 24
        )  # fmt: skip
        at_0, at_1, at_2, at_3 = first, second, third, fourth
        end_0, end_1, end_2, end_3 = end, begin_1, begin_2, begin_3
        while at_0 <= second - 8 and at_1 <= third - 8 and at_2 <= fourth - 8 and at_3 <= stop - 8:
            at_0, end_0 = _encode_one(at_0, heads, pairs, end_0)
            at_1, end_1 = _encode_one(at_1, heads, pairs, end_1)
            at_2, end_2 = _encode_one(at_2, heads, pairs, end_2)
            at_3, end_3 = _encode_one(at_3, heads, pairs, end_3)
        end = _encode_rest(at_0, second, data_stop, heads, pairs, singles, end_0)
        write_offset(target_offsets, offset_bytes, i + 1, end - target)
        end_1 = _encode_rest(at_1, third, data_stop, heads, pairs, singles, end_1)
        end = _moved(end, begin_1, end_1 - begin_1)
        write_offset(target_offsets, offset_bytes, i + 2, end - target)
        end_2 = _encode_rest(at_2, fourth, data_stop, heads, pairs, singles, end_2)
        end = _moved(end, begin_2, end_2 - begin_2)
        write_offset(target_offsets, offset_bytes, i + 3, end - target)
        end_3 = _encode_rest(at_3, stop, data_stop, heads, pairs, singles, end_3)
        end = _moved(end, begin_3, end_3 - begin_3)
        i += 4
    write_offset(target_offsets, offset_bytes, num_values, end - target)
    return end - target
