"""Split-block Bloom filters, as in Parquet: inserts values, and looks for them, by their XXH64 hash with seed 0.

A filter is a number of blocks of eight 32-bit words. The upper half of a hash selects a block; the lower half, times
one odd number (salt) for each word, selects one bit of each word by its upper five bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.kernels.jit import address_of, inlined, kernel, pointer_i64, pointer_u8, pointer_u32

_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
WORDS_PER_BLOCK = 8


@inlined
def _rotated(value, bits):
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _round(lane, value):
    return _rotated(lane + value * np.uint64(0xC2B2AE3D27D4EB4F), 31) * np.uint64(0x9E3779B185EBCA87)


@inlined
def _word(data, place, num_bytes):
    value = np.uint64(0)
    for byte in range(num_bytes):
        value |= np.uint64(data[place + byte]) << np.uint64(8 * byte)
    return value


@inlined
def _merged(hash_, lane):
    return (hash_ ^ _round(np.uint64(0), lane)) * np.uint64(0x9E3779B185EBCA87) + np.uint64(0x85EBCA77C2B2AE63)


@inlined
def _hash(data, start, length):
    place = start
    stop = start + length
    if length >= 32:
        one = np.uint64(0x60EA27EEADC0B5D6)
        two = np.uint64(0xC2B2AE3D27D4EB4F)
        three = np.uint64(0)
        four = np.uint64(0x61C8864E7A143579)
        while stop - place >= 32:
            one = _round(one, _word(data, place, 8))
            two = _round(two, _word(data, place + 8, 8))
            three = _round(three, _word(data, place + 16, 8))
            four = _round(four, _word(data, place + 24, 8))
            place += 32
        hash_ = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
        hash_ = _merged(_merged(_merged(_merged(hash_, one), two), three), four)
    else:
        hash_ = np.uint64(0x27D4EB2F165667C5)
    hash_ += np.uint64(length)
    while stop - place >= 8:
        hash_ ^= _round(np.uint64(0), _word(data, place, 8))
        hash_ = _rotated(hash_, 27) * np.uint64(0x9E3779B185EBCA87) + np.uint64(0x85EBCA77C2B2AE63)
        place += 8
    if stop - place >= 4:
        hash_ ^= _word(data, place, 4) * np.uint64(0x9E3779B185EBCA87)
        hash_ = _rotated(hash_, 23) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(0x165667B19E3779F9)
        place += 4
    while place < stop:
        hash_ ^= np.uint64(data[place]) * np.uint64(0x27D4EB2F165667C5)
        hash_ = _rotated(hash_, 11) * np.uint64(0x9E3779B185EBCA87)
        place += 1
    hash_ = (hash_ ^ (hash_ >> np.uint64(33))) * np.uint64(0xC2B2AE3D27D4EB4F)
    hash_ = (hash_ ^ (hash_ >> np.uint64(29))) * np.uint64(0x165667B19E3779F9)
    return hash_ ^ (hash_ >> np.uint64(32))


@kernel("void(int64, int64, int64, int64, int64, int64)")
def insert(data, offsets, num_values, salts, words, num_blocks):
    """Sets the bits of values; value i is at `data[offsets[i]:offsets[i + 1]]`. The caller checks the int64 offsets."""
    source = pointer_u8(data)
    bounds = pointer_i64(offsets)
    factors = pointer_u32(salts)
    out = pointer_u32(words)
    for value in range(num_values):
        hash_ = _hash(source, bounds[value], bounds[value + 1] - bounds[value])
        block = np.int64(((hash_ >> np.uint64(32)) * np.uint64(num_blocks)) >> np.uint64(32)) * 8
        low = np.uint64(hash_ & np.uint64(0xFFFFFFFF))
        for word in range(8):
            bit = ((low * np.uint64(factors[word])) & np.uint64(0xFFFFFFFF)) >> np.uint64(27)
            out[block + word] = np.uint32(np.uint64(out[block + word]) | (np.uint64(1) << bit))


def insert_values(values: pa.Array, words: npt.NDArray[np.uint32]) -> None:
    """Inserts values without nulls into the filter `words` (uint32[8 * blocks]).

    Numbers are hashed as little-endian bytes of their width, texts and binaries as they are.
    """
    if len(values) == 0:
        return
    offsets, data = _layout(values)
    num_blocks = len(words) // WORDS_PER_BLOCK
    insert(address_of(data), address_of(offsets), len(values), address_of(_SALTS), address_of(words), num_blocks)


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def look_up(data, offsets, num_values, salts, words, firsts, num_blocks, num_filters, found):
    """Sets `found` (u8[num_filters]) to 1 for the filters that have all bits of one of some values.

    Filter i has `num_blocks[i]` (int64) blocks from word number `firsts[i]` (int64) on; the caller checks both. `data`,
    `offsets` and `num_values` as of `insert`.
    """
    source = pointer_u8(data)
    bounds = pointer_i64(offsets)
    factors = pointer_u32(salts)
    table = pointer_u32(words)
    starts = pointer_i64(firsts)
    counts = pointer_i64(num_blocks)
    out = pointer_u8(found)
    for value in range(num_values):
        hash_ = _hash(source, bounds[value], bounds[value + 1] - bounds[value])
        low = np.uint64(hash_ & np.uint64(0xFFFFFFFF))
        for number in range(num_filters):
            block = np.int64(((hash_ >> np.uint64(32)) * np.uint64(counts[number])) >> np.uint64(32)) * 8
            is_there = np.uint64(1)
            for word in range(8):
                bit = ((low * np.uint64(factors[word])) & np.uint64(0xFFFFFFFF)) >> np.uint64(27)
                is_there &= np.uint64(table[starts[number] + block + word]) >> bit
            out[number] |= np.uint8(is_there)


def filters_with(
    values: pa.Array, words: npt.NDArray[np.uint32], firsts: npt.NDArray[np.int64], num_blocks: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """bool[n]: which of some filters may have one of some values without nulls.

    Args:
        words: uint32, the filters, one after the other.
        firsts, num_blocks: int64[n]: where each filter begins in `words`, and its blocks, which are in `words`: at
            least one.
    """
    found = np.zeros(len(firsts), np.bool_)
    if len(values):
        offsets, data = _layout(values)
        addresses = [address_of(array) for array in (_SALTS, words, firsts, num_blocks)]
        look_up(address_of(data), address_of(offsets), len(values), *addresses, len(firsts), address_of(found))
    return found


def _layout(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """(int64[n + 1] offsets, bytes) of the values."""
    dtype = values.type
    if pt.is_primitive(dtype):
        width = dtype.bit_width // 8
        data = np.frombuffer(values.buffers()[1], np.uint8)
        return np.arange(len(values) + 1, dtype=np.int64) * width + values.offset * width, data
    is_large = pt.is_large_string(dtype) or pt.is_large_binary(dtype)
    offsets = np.frombuffer(values.buffers()[1], np.int64 if is_large else np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
    body = values.buffers()[2]
    return offsets, np.zeros(1, np.uint8) if body is None or body.size == 0 else np.frombuffer(body, np.uint8)
