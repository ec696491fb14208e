"""RQ: how the codes of a partition are packed.

A code is a sign bit and, with more than one bit a dimension, a magnitude, which is stored inverted for negative values.
Unpacked, each dimension is one number of `num_bits` bits whose order is that of the values. Codes of five bits, the
default of the reference library, stay packed: few rows are left when signs have been compared, and their codes are
unpacked then.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.rabitq import PANEL_ROWS
from lance_spark.kernels.vector.rabitq_unpack import panels_of_blocks

_BLOCK_DIMENSIONS = 64
MAX_BITS = 9
PACKED_BITS = 5
"""Codes that are compared as they are stored."""

Bytes = npt.NDArray[np.uint8]


def magnitude_bytes(dimension: int, num_bits: int) -> int:
    """Bytes of a row's magnitudes.

    >>> magnitude_bytes(104, 5)
    64
    """
    return _BLOCK_DIMENSIONS * -(-dimension // _BLOCK_DIMENSIONS) * (num_bits - 1) // 8


def sign_panels(rows: Bytes) -> npt.NDArray[np.uint64]:
    """uint64[ceil(n / 8), ceil(d / 64), 8]: the sign bits of eight rows side by side, 0 where there is no row or bit.

    >>> sign_panels(np.array([[1], [2]], np.uint8)).tolist()
    [[[1, 2, 0, 0, 0, 0, 0, 0]]]
    """
    num_panels, num_words = -(-len(rows) // PANEL_ROWS), -(-rows.shape[1] // 8)
    padded = np.zeros((num_panels * PANEL_ROWS, num_words * 8), np.uint8)
    padded[: len(rows), : rows.shape[1]] = rows
    words = padded.view("<u8").reshape(num_panels, PANEL_ROWS, num_words)
    return np.ascontiguousarray(words.transpose(0, 2, 1), np.uint64)


def packed_sign_panels(signs: Bytes) -> npt.NDArray[np.uint64]:
    """Same as `sign_panels`, for bytes that are stored 32 rows at a time.

    Args:
        signs: [n, d / 8], as stored.
    """
    found, (num_rows, width) = np.ascontiguousarray(signs), signs.shape
    panels = np.zeros((-(-num_rows // PANEL_ROWS), -(-width // 8), PANEL_ROWS), np.uint64)
    panels_of_blocks(address_of(found), num_rows, width, address_of(panels))
    return panels


def sign_rows(panels: npt.NDArray[np.uint64], num_rows: int, width: int) -> Bytes:
    """[n, d / 8]: the sign bits of each row."""
    words = np.ascontiguousarray(panels.transpose(0, 2, 1), "<u8").view(np.uint8)
    return words.reshape(len(panels) * PANEL_ROWS, panels.shape[1] * 8)[:num_rows, :width]


def unpacked_codes(rows: Bytes, magnitudes: Bytes | None, num_bits: int) -> npt.NDArray[Any]:
    """[n, d]: a code for each dimension: uint8, uint16 with nine bits; not of `PACKED_BITS`.

    Args:
        rows: [n, d / 8]: sign bits.
        magnitudes: [n, `magnitude_bytes`]; None with one bit.
    """
    # All rows as one, and products in place of shifts: numpy needs a third and a tenth of the time.
    bits = np.unpackbits(rows.ravel(), bitorder="little").reshape(len(rows), -1)
    if magnitudes is None:
        return bits
    blocks = magnitudes.reshape(len(rows), -1, 8 * (num_bits - 1))
    values = _unpacked_blocks(blocks, num_bits - 1).reshape(len(rows), -1)[:, : bits.shape[1]]
    found: npt.NDArray[Any] = bits.astype(np.uint16) if num_bits == MAX_BITS else bits
    found *= 1 << (num_bits - 1)
    found |= values
    return found


def _unpacked_blocks(blocks: Bytes, num_bits: int) -> Bytes:
    """uint8[n, b, 64] of [n, b, 8 * num_bits]; not of four bits."""
    if num_bits == 8:
        return blocks
    if num_bits == 1:
        return np.unpackbits(blocks, axis=2, bitorder="little")
    if num_bits in (3, 5, 7):
        lower = 8 * (num_bits - 1)
        below = _pairs_of_runs if num_bits == 5 else partial(_unpacked_blocks, num_bits=num_bits - 1)
        top: Bytes = _top_plane(blocks[:, :, lower:]) << np.uint8(num_bits - 1)
        return below(blocks[:, :, :lower]) | top
    out = np.empty((*blocks.shape[:2], 4, 16), np.uint8)
    if num_bits == 2:
        for run in range(4):
            out[:, :, run] = (blocks >> 2 * run) & 3
    else:
        triples = blocks.reshape(*blocks.shape[:2], 3, 16)
        out[:, :, :3] = triples & 63
        out[:, :, 3] = triples[:, :, 0] >> 6 | triples[:, :, 1] >> 6 << 2 | triples[:, :, 2] >> 6 << 4
    return out.reshape(*blocks.shape[:2], _BLOCK_DIMENSIONS)


def _pairs_of_runs(blocks: Bytes) -> Bytes:
    """The lower four of five bits: two runs of 16 dimensions in the nibbles of 16 bytes."""
    pairs = blocks.reshape(*blocks.shape[:2], 2, 1, 16)
    return np.concatenate([pairs & 15, pairs >> 4], axis=3).reshape(*blocks.shape[:2], _BLOCK_DIMENSIONS)


def _top_plane(plane: Bytes) -> Bytes:
    bits = np.unpackbits(plane, axis=2, bitorder="little")
    runs, places = np.divmod(np.arange(_BLOCK_DIMENSIONS), 16)
    return bits[:, :, 8 * (places % 8) + 2 * runs + places // 8]
