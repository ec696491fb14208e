"""RQ: codes of rows from the form in which they are stored."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_u8, pointer_u64

_BLOCK_ROWS = 32
_HALF_ROWS = 16


@kernel("int64(int64, int64, int64, int64)")
def rows_of_blocks(stored, num_rows, width, rows):
    """Puts the bytes of each row side by side.

    Args:
        stored: uint8[n * width]: of 32 rows at a time byte after byte, first the lower halves of all (of rows
            0 and 16 in one, of 8 and 24, 1 and 17, ..., 15 and 31), then the upper ones; of the rest byte after byte.
        rows: uint8[n, width], written.
    """
    source, target = pointer_u8(stored), pointer_u8(rows)
    num_blocks = num_rows // _BLOCK_ROWS
    for block in range(num_blocks):
        for place in range(_HALF_ROWS):
            row = block * _BLOCK_ROWS + place // 2 + 8 * (place % 2)
            for byte in range(width):
                at = (block * width + byte) * _BLOCK_ROWS + place
                low, high = source[at], source[at + _HALF_ROWS]
                target[row * width + byte] = np.uint8((low & 15) | (high << 4))
                target[(row + _HALF_ROWS) * width + byte] = np.uint8((low >> 4) | (high & 240))
    inside = num_blocks * _BLOCK_ROWS
    for row in range(inside, num_rows):
        for byte in range(width):
            target[row * width + byte] = source[inside * width + byte * (num_rows - inside) + row - inside]
    return 0


@inlined
def _with_signs(halves, signs):
    """Eight codes: four bits each of `halves`, above them the bits of a byte."""
    # In each byte one bit of the signs; those that are not 0 carry into the uppermost bit.
    bits = (np.uint64(signs) * np.uint64(0x0101010101010101)) & np.uint64(0x8040201008040201)
    top = (bits + np.uint64(0x7F7F7F7F7F7F7F7F)) & np.uint64(0x8080808080808080)
    return (halves & np.uint64(0x0F0F0F0F0F0F0F0F)) | (top >> np.uint64(3))


@kernel("int64(int64, int64, int64, int64, int64)")
def codes_of_five_bits(signs, magnitudes, num_rows, num_words, codes):
    """Writes the codes of rows whose magnitudes have four bits.

    Args:
        signs: uint8[n, w]: the bits above the magnitudes.
        magnitudes: uint8[n, 32 * ceil(w / 8)], at an address that is a multiple of 8: of each 16 dimensions those of
            the first eight in the lower halves of eight bytes.
        num_words: w, an eighth of the dimensions.
        codes: uint8[n, 8 * w], written, at such an address too.
    """
    bits, halves, out = pointer_u8(signs), pointer_u64(magnitudes), pointer_u64(codes)
    row_halves = (num_words + 7) // 8 * 4
    for i in range(num_rows):
        first, source, target = i * num_words, i * row_halves, i * num_words
        for pair in range(num_words // 2):
            both = halves[source + pair]
            out[target + 2 * pair] = _with_signs(both, bits[first + 2 * pair])
            out[target + 2 * pair + 1] = _with_signs(both >> np.uint64(4), bits[first + 2 * pair + 1])
        if num_words % 2:
            out[target + num_words - 1] = _with_signs(halves[source + num_words // 2], bits[first + num_words - 1])
    return 0
