"""Places of points on space-filling curves.

The Hilbert curve is that of J. Skilling, "Programming the Hilbert curve" (2004), for all points at once.

>>> hilbert(np.array([[0, 0, 1, 1], [0, 1, 1, 0]]), 1).tolist()
[0, 1, 2, 3]
>>> zorder(np.array([[0, 0, 1, 1], [0, 1, 0, 1]]), 1).tolist()
[0, 1, 2, 3]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.table.rows.row_address import UInt64Array


def hilbert(coordinates: npt.NDArray[Any], bits: int) -> UInt64Array:
    """uint64[n]: the places on a Hilbert curve of points with coordinates [dimensions, n] of `bits` bits."""
    x = coordinates.astype(np.uint64)
    one = np.uint64(1)
    for shift in range(bits - 1, 0, -1):
        bit, low = one << np.uint64(shift), (one << np.uint64(shift)) - one
        for axis in range(len(x)):
            is_set = (x[axis] & bit) != 0
            swapped = np.where(is_set, np.uint64(0), (x[0] ^ x[axis]) & low)
            x[0] = np.where(is_set, x[0] ^ low, x[0] ^ swapped)
            if axis:
                x[axis] ^= swapped
    for axis in range(1, len(x)):
        x[axis] ^= x[axis - 1]
    flips = np.zeros(x.shape[1], np.uint64)
    for shift in range(bits - 1, 0, -1):
        low = (one << np.uint64(shift)) - one
        flips ^= np.where((x[-1] >> np.uint64(shift)) & one != 0, low, np.uint64(0))
    return zorder(x ^ flips, bits)


def zorder(coordinates: npt.NDArray[Any], bits: int) -> UInt64Array:
    """uint64[n]: the bits of the coordinates [dimensions, n] in turn, the highest first."""
    x = coordinates.astype(np.uint64)
    places = np.zeros(x.shape[1], np.uint64)
    for shift in range(bits - 1, -1, -1):
        for axis in x:
            places = (places << np.uint64(1)) | ((axis >> np.uint64(shift)) & np.uint64(1))
    return places
