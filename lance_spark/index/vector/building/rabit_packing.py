"""Packing of RaBitQ codes in files: sign codes in blocks of 32 rows, magnitude codes in blocks of 64 values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UInt8Array = npt.NDArray[np.uint8]
ByteArray = npt.NDArray[Any]

_BLOCK_ROWS = 32
_BLOCK_VALUES = 64
_ORDER = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])


def packed_signs(codes: UInt8Array) -> UInt8Array:
    """The sign codes of a partition, uint8[n, bytes], as files have them.

    The nibbles of a byte of 32 rows come together; rows that fill no block are transposed.
    """
    num_rows, width = codes.shape
    whole = num_rows // _BLOCK_ROWS * _BLOCK_ROWS
    blocks = codes[:whole].reshape(-1, _BLOCK_ROWS, width).transpose(0, 2, 1)
    first, second = blocks[:, :, _ORDER], blocks[:, :, _ORDER + 16]
    low = (first & 15) | ((second & 15) << 4)
    high = (first >> 4) | (second & 240)
    data = np.concatenate([np.concatenate([low, high], axis=2).reshape(-1), codes[whole:].T.reshape(-1)])
    return data.astype(np.uint8).reshape(num_rows, width)


def unpacked_signs(data: UInt8Array) -> UInt8Array:
    """Inverse of `packed_signs`.

    >>> codes = np.arange(280, dtype=np.uint8).reshape(70, 4)
    >>> bool((unpacked_signs(packed_signs(codes)) == codes).all())
    True
    """
    num_rows, width = data.shape
    whole = num_rows // _BLOCK_ROWS * _BLOCK_ROWS
    flat = np.ascontiguousarray(data).reshape(-1)
    blocks = flat[: whole * width].reshape(-1, width, _BLOCK_ROWS)
    low, high = blocks[:, :, :16], blocks[:, :, 16:]
    rows = np.empty_like(blocks)
    rows[:, :, _ORDER] = (low & 15) | ((high & 15) << 4)
    rows[:, :, _ORDER + 16] = (low >> 4) | (high & 240)
    rest = flat[whole * width :].reshape(width, num_rows - whole).T
    return np.concatenate([rows.transpose(0, 2, 1).reshape(whole, width), rest])


def packed_magnitudes(codes: UInt8Array, num_bits: int) -> UInt8Array:
    """uint8[n, bytes]: codes of `num_bits` bits, uint8[n, d], as files have them: row for row."""
    num_rows, dimension = codes.shape
    num_blocks = -(-dimension // _BLOCK_VALUES)
    padded = np.zeros((num_rows, num_blocks * _BLOCK_VALUES), np.uint8)
    padded[:, :dimension] = codes
    # Value 16 k + b of a block is at [k, b].
    blocks = padded.reshape(num_rows, num_blocks, 4, 16)
    parts = {1: _one, 2: _two, 4: _four, 6: _six, 8: _eight}
    low_bits = num_bits if num_bits in parts else num_bits - 1
    data = _four_by_sixteen(blocks & 15) if num_bits == 5 else parts[low_bits](blocks & ((1 << low_bits) - 1))
    if low_bits != num_bits:
        data = np.concatenate([data, _top_plane(blocks >> low_bits)], axis=2)
    return data.reshape(num_rows, data.shape[1] * data.shape[2]).astype(np.uint8)


def _one(blocks: ByteArray) -> ByteArray:
    return np.packbits(blocks.reshape(*blocks.shape[:2], _BLOCK_VALUES), axis=2, bitorder="little")


def _two(blocks: ByteArray) -> ByteArray:
    found: ByteArray = blocks[:, :, 0] | (blocks[:, :, 1] << 2) | (blocks[:, :, 2] << 4) | (blocks[:, :, 3] << 6)
    return found


def _four(blocks: ByteArray) -> ByteArray:
    found: ByteArray = blocks[:, :, :, :8] | (blocks[:, :, :, 8:] << 4)
    return found.reshape(*blocks.shape[:2], 32)


def _four_by_sixteen(blocks: ByteArray) -> ByteArray:
    found: ByteArray = blocks[:, :, 0::2] | (blocks[:, :, 1::2] << 4)
    return found.reshape(*blocks.shape[:2], 32)


def _six(blocks: ByteArray) -> ByteArray:
    last = blocks[:, :, 3]
    found = [blocks[:, :, k] | (((last >> (2 * k)) & 3) << 6) for k in range(3)]
    return np.concatenate(found, axis=2)


def _eight(blocks: ByteArray) -> ByteArray:
    return blocks.reshape(*blocks.shape[:2], _BLOCK_VALUES)


def _top_plane(bits: ByteArray) -> ByteArray:
    """Eight bytes: the bit of value 16 k + b is bit 2 k + b // 8 of byte b % 8."""
    plane = np.zeros((*bits.shape[:2], 8), np.uint8)
    for k in range(4):
        for half in range(2):
            plane |= (bits[:, :, k, 8 * half : 8 * half + 8] & 1) << np.uint8(2 * k + half)
    return plane
