"""RQ: how the codes of a partition are packed, and the rotation of vectors before they are coded.

A code is a sign bit and, with more than one bit a dimension, a magnitude, which is stored inverted for negative values.
Unpacked, each dimension is one number of `num_bits` bits whose order is that of the values.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.index.vector.metrics import Float32Array

_BLOCK_ROWS = 32
_BLOCK_DIMENSIONS = 64
_ROW_ORDER = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])
MAX_BITS = 9

Bytes = npt.NDArray[np.uint8]


def magnitude_bytes(dimension: int, num_bits: int) -> int:
    """Bytes of a row's magnitudes.

    >>> magnitude_bytes(104, 5)
    64
    """
    return _BLOCK_DIMENSIONS * -(-dimension // _BLOCK_DIMENSIONS) * (num_bits - 1) // 8


def unpacked_codes(signs: Bytes, magnitudes: Bytes | None, num_bits: int, *, packed: bool) -> npt.NDArray[Any]:
    """[n, d]: a code for each dimension: uint8, uint16 with nine bits.

    Args:
        signs: [n, d / 8], as stored.
        magnitudes: [n, `magnitude_bytes`]; None with one bit.
        packed: whether the bytes of 32 rows are interleaved.
    """
    rows = _rows_of_blocks(signs) if packed else signs
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    if magnitudes is None:
        return bits
    dtype = np.uint16 if num_bits == MAX_BITS else np.uint8
    blocks = magnitudes.reshape(len(signs), -1, 8 * (num_bits - 1))
    values = _unpacked_blocks(blocks, num_bits - 1).reshape(len(signs), -1)[:, : bits.shape[1]]
    found: npt.NDArray[Any] = (bits.astype(dtype) << (num_bits - 1)) | values.astype(dtype)
    return found


def _rows_of_blocks(stored: Bytes) -> Bytes:
    num_rows, width = stored.shape
    flat = stored.ravel()
    num_blocks = num_rows // _BLOCK_ROWS
    inside = num_blocks * _BLOCK_ROWS
    out = np.empty_like(stored)
    halves = flat[: inside * width].reshape(num_blocks, width, 2, _BLOCK_ROWS // 2)
    low, high = halves[:, :, 0], halves[:, :, 1]
    blocks = out[:inside].reshape(num_blocks, _BLOCK_ROWS, width)
    blocks[:, _ROW_ORDER] = ((low & 15) | (high << 4)).transpose(0, 2, 1)
    blocks[:, _ROW_ORDER + 16] = ((low >> 4) | (high & 0xF0)).transpose(0, 2, 1)
    out[inside:] = flat[inside * width :].reshape(width, num_rows - inside).T
    return out


def _unpacked_blocks(blocks: Bytes, num_bits: int) -> Bytes:
    """uint8[n, b, 64] of [n, b, 8 * num_bits]."""
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
    elif num_bits == 4:
        octets = blocks.reshape(*blocks.shape[:2], 4, 8)
        out[:, :, :, :8], out[:, :, :, 8:] = octets & 15, octets >> 4
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


def rotated(vector: Float32Array, signs: Bytes) -> Float32Array:
    """float32[d]: a vector after four rounds of sign flips and Walsh-Hadamard transforms.

    Args:
        signs: uint8[4, ceil(d / 8)]: which signs each round flips, bit by bit.
    """
    values = vector.astype(np.float32)
    dimension = len(values)
    flips = np.unpackbits(signs, axis=1, bitorder="little")[:, :dimension].astype(np.float32) * -2 + 1
    size = 1 << (dimension.bit_length() - 1)
    if size == dimension:
        for flip in flips:
            values = _transformed(values * flip)
        return values
    half = dimension // 2
    for number, flip in enumerate(flips):
        values = values * flip
        inside = slice(0, size) if number % 2 == 0 else slice(dimension - size, dimension)
        values[inside] = _transformed(values[inside])
        first, second = values[:half].copy(), values[half : 2 * half].copy()
        values[:half], values[half : 2 * half] = first + second, first - second
    scaled: Float32Array = values * np.float32(0.25)
    return scaled


def _transformed(values: Float32Array) -> Float32Array:
    size = len(values)
    found = values
    width = 1
    while width < size:
        pairs = found.reshape(-1, 2, width)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(size)
        width *= 2
    scaled: Float32Array = found * np.float32(1 / np.sqrt(size))
    return scaled
