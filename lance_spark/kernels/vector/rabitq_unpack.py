"""RQ: signs and codes of rows from the form in which they are stored."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_u8, pointer_u64

_BLOCK_ROWS = 32
_HALF_ROWS = 16


@inlined
def _words_of_block(source, num_bytes, words):
    """Up to eight bytes of 32 rows as a word a row: those of the first rows of the pairs, then those of the others."""
    for place in range(_BLOCK_ROWS):
        words[place] = 0
    for byte in range(num_bytes):
        at, shift = byte * _BLOCK_ROWS, np.uint64(8 * byte)
        for place in range(_HALF_ROWS):
            low, high = np.uint64(source[at + place]), np.uint64(source[at + place + _HALF_ROWS])
            words[place] |= ((low & np.uint64(15)) | ((high & np.uint64(15)) << np.uint64(4))) << shift
            words[place + _HALF_ROWS] |= ((low >> np.uint64(4)) | (high & np.uint64(240))) << shift
    return 0


@inlined
def _store_block(words, panels, stride):
    """Stores the words of 32 rows in four panels, which are `stride` words apart."""
    for place in range(_BLOCK_ROWS):
        panels[(place // _HALF_ROWS * 2 + place % 2) * stride + place % _HALF_ROWS // 2] = words[place]
    return 0


@kernel("int64(int64, int64, int64, int64)")
def panels_of_blocks(stored, num_rows, width, panels):
    """Puts the sign bits of eight rows side by side.

    Args:
        stored: uint8[n * width]: of 32 rows at a time byte after byte, first the lower halves of all (of rows
            0 and 16 in one, of 8 and 24, 1 and 17, ..., 15 and 31), then the upper ones; of the rest byte after byte.
        panels: uint64[ceil(n / 8), ceil(width / 8), 8], which is 0 before.
    """
    source, target = pointer_u8(stored), pointer_u8(panels)
    num_blocks, num_words = num_rows // _BLOCK_ROWS, (width + 7) // 8
    words = np.empty(_BLOCK_ROWS, np.uint64)
    for block in range(num_blocks):
        for word in range(num_words):
            first, last = block * width + 8 * word, block * width + min(8 * word + 8, width)
            _words_of_block(pointer_u8(stored + first * _BLOCK_ROWS), last - first, words)
            _store_block(words, pointer_u64(panels + (block * 4 * num_words + word) * 64), num_words * 8)
    inside = num_blocks * _BLOCK_ROWS
    for row in range(inside, num_rows):
        for byte in range(width):
            place = ((row >> 3) * num_words + (byte >> 3)) * 64 + (row & 7) * 8 + (byte & 7)
            target[place] = source[inside * width + byte * (num_rows - inside) + row - inside]
    return 0


@inlined
def _with_signs(halves, signs):
    """Eight codes: four bits each of `halves`, above them the bits of a byte."""
    # In each byte one bit of the signs; those that are not 0 carry into the uppermost bit.
    bits = ((signs & np.uint64(255)) * np.uint64(0x0101010101010101)) & np.uint64(0x8040201008040201)
    top = (bits + np.uint64(0x7F7F7F7F7F7F7F7F)) & np.uint64(0x8080808080808080)
    return (halves & np.uint64(0x0F0F0F0F0F0F0F0F)) | (top >> np.uint64(3))


@inlined
def unpacked_row(panels, magnitudes, row, num_words, codes):
    """Writes the codes of a row, a byte each, whose magnitudes have four bits.

    Args:
        panels: uint64[ceil(n / 8), w, 8]: the sign bits of n rows, those of 64 dimensions in a word.
        magnitudes: uint64[n, 4 * w]: of each 16 dimensions those of the first eight in the lower halves of a word.
        codes: uint64[8 * w].
    """
    bits, source = (row >> 3) * num_words * 8 + (row & 7), row * num_words * 4
    for word in range(num_words):
        signs = panels[bits + word * 8]
        for pair in range(4):
            both = magnitudes[source + word * 4 + pair]
            codes[word * 8 + 2 * pair] = _with_signs(both, signs >> np.uint64(16 * pair))
            codes[word * 8 + 2 * pair + 1] = _with_signs(both >> np.uint64(4), signs >> np.uint64(16 * pair + 8))
    return 0
