"""Arrays that begin at a line of the processor's caches, so that their rows lie in as few lines as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.kernels.jit import address_of

_LINE_BYTES = 128
"""Two lines, which processors fetch together."""


def line_aligned(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of arbitrary values that begins at a line.

    >>> line_aligned((3, 5), np.float32).shape
    (3, 5)
    """
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(num_bytes + _LINE_BYTES, np.uint8)
    start = -address_of(room) % _LINE_BYTES
    return room[start : start + num_bytes].view(dtype).reshape(shape)


def owned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array, or a copy of it if it is a view of more values: nothing else stays in memory with it."""
    base = array.base
    is_all = isinstance(base, np.ndarray) and base.base is None and base.nbytes <= array.nbytes + _LINE_BYTES
    return array if base is None or is_all else array.copy()
