"""Lengths of documents in one byte, as scores of indexes with blocks of 256 use them.

Numbers below 8 are exact, of others the four highest bits are kept.

>>> decode_length(encode_length(np.array([3, 23, 25, 1000]))).tolist()
[3, 22, 24, 960]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def encode_length(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The codes of lengths (int64[n], below 2^31)."""
    shift = np.maximum(np.frexp(lengths.astype(np.float64))[1] - 4, 0).astype(np.int64)
    return np.where(lengths < 8, lengths, (lengths >> shift) & 7 | (shift + 1) << 3)


def decode_length(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The smallest length with each code."""
    return np.where(codes < 8, codes & 7, (codes & 7 | 8) << np.maximum((codes >> 3) - 1, 0))
