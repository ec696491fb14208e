"""Places of points on space-filling curves.

The Hilbert curve is that of J. Skilling, "Programming the Hilbert curve" (2004), for all points at once.

>>> hilbert(np.array([[0, 0, 1, 1], [0, 1, 1, 0]]), 1).tolist()
[0, 1, 2, 3]
>>> zorder(np.array([[0, 0, 1, 1], [0, 1, 0, 1]]), 1).tolist()
[0, 1, 2, 3]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.table.rows.row_address import UInt64Array

_BLOCK_ROWS = 1 << 14
"""Points that are computed at a time, so that they stay in the cache."""


def hilbert(coordinates: npt.NDArray[Any], bits: int) -> UInt64Array:
    """uint64[n]: the places on a Hilbert curve of points with coordinates [dimensions, n] of `bits` bits."""
    return _in_blocks(_hilbert, coordinates, bits)


def zorder(coordinates: npt.NDArray[Any], bits: int) -> UInt64Array:
    """uint64[n]: the bits of the coordinates [dimensions, n] in turn, the highest first."""
    return _in_blocks(_interleaved, coordinates, bits)


def _in_blocks(
    curve: Callable[[npt.NDArray[np.uint32], int], UInt64Array], coordinates: npt.NDArray[Any], bits: int
) -> UInt64Array:
    starts = range(0, coordinates.shape[1], _BLOCK_ROWS)
    blocks = [curve(coordinates[:, start : start + _BLOCK_ROWS].astype(np.uint32), bits) for start in starts]
    return np.concatenate([np.empty(0, np.uint64), *blocks])


def _hilbert(x: npt.NDArray[np.uint32], bits: int) -> UInt64Array:
    one = np.uint32(1)
    for shift in range(bits - 1, 0, -1):
        bit, low = one << np.uint32(shift), (one << np.uint32(shift)) - one
        for axis in range(len(x)):
            is_set = (x[axis] & bit) != 0
            swapped = np.where(is_set, np.uint32(0), (x[0] ^ x[axis]) & low)
            x[0] ^= np.where(is_set, low, swapped)
            if axis:
                x[axis] ^= swapped
    for axis in range(1, len(x)):
        x[axis] ^= x[axis - 1]
    flips = np.zeros(x.shape[1], np.uint32)
    for shift in range(bits - 1, 0, -1):
        flips ^= ((x[-1] >> np.uint32(shift)) & one) * ((one << np.uint32(shift)) - one)
    return _interleaved(x ^ flips, bits)


def _interleaved(x: npt.NDArray[np.uint32], bits: int) -> UInt64Array:
    places = np.zeros(x.shape[1], np.uint64)
    for shift in range(bits - 1, -1, -1):
        for axis in x:
            places = (places << np.uint64(1)) | ((axis >> np.uint32(shift)) & np.uint32(1))
    return places
