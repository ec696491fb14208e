"""Single values of bit-packed blocks (`lance_spark.kernels.bitpack` has their order)."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES
from lance_spark.kernels.jit import inlined
from lance_spark.kernels.words import read_word


@inlined
def packed_value(source, place, width, word_bits, lanes):
    """Value `place` of a packed block of words of `width` > 0 bits; there are `lanes` = 1024 / `word_bits` lanes."""
    word_bytes = word_bits >> 3
    rest = place & 127
    order = rest // lanes * (lanes >> 4)
    octet = ((order & 1) << 2) | (order & 2) | (order >> 2)
    bit = (octet * 8 + (place >> 7)) * width
    word = bit // word_bits
    shift = bit - word * word_bits
    source += (word * lanes + rest % lanes) * word_bytes
    value = read_word(source, word_bytes) >> np.uint64(shift)
    if shift + width > word_bits:
        value |= read_word(source + lanes * word_bytes, word_bytes) << np.uint64(word_bits - shift)
    if width < 64:
        value &= (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    return value


@inlined
def out_of_line_value(source, size, num_values, place, word_bits, width):
    """(value, 1) number `place` of `num_values` in `size` bytes at `source`; (0, 0) if they contradict each other."""
    blocks = num_values // BLOCK_VALUES
    block_bytes = width * BLOCK_BYTES_PER_BIT
    left = size - blocks * block_bytes
    if left < 0 or place >= num_values:
        return np.uint64(0), np.int64(0)
    block = place // BLOCK_VALUES
    within = place - block * BLOCK_VALUES
    source += block * block_bytes
    word_bytes = word_bits >> 3
    if block == blocks and left == (num_values - blocks * BLOCK_VALUES) * word_bytes:
        return read_word(source + within * word_bytes, word_bytes), np.int64(1)
    if block == blocks and left < block_bytes:
        return np.uint64(0), np.int64(0)
    if width == 0:
        return np.uint64(0), np.int64(1)
    return packed_value(source, within, width, word_bits, BLOCK_VALUES // word_bits), np.int64(1)
