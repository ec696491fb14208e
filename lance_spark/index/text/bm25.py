"""BM25 weights, in 32-bit floating point in the order of operations of the reference library, and lengths of documents
in one byte, by which indexes with blocks of 256 weigh.

Lengths below 8 are exact, of others the four highest bits are kept.

>>> decode_length(encode_length(np.array([3, 23, 25, 1000]))).tolist()
[3, 22, 24, 960]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.postings import norms_of_lengths

_K1 = np.float32(1.2)
_ONE = np.float32(1)


def norms_of(lengths: npt.NDArray[np.integer], average: np.float32) -> npt.NDArray[np.float32]:
    """float32[n]: what the lengths of documents, in terms, take from the weight of each occurrence.

    Args:
        average: of the lengths of all documents.
    """
    counts = np.ascontiguousarray(lengths, np.uint32)
    norms = np.empty(len(counts), np.float32)
    norms_of_lengths(address_of(counts), len(counts), average, address_of(norms))
    return norms


def weights_of(freqs: npt.NDArray[np.int32], norms: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """float32[n]: how much occurrences of a term in documents count."""
    occurrences = freqs.astype(np.float32)
    weights: npt.NDArray[np.float32] = (_K1 + _ONE) * occurrences / (occurrences + norms)
    return weights


def encode_length(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The codes of lengths (int64[n], below 2^31)."""
    shift = np.maximum(np.frexp(lengths.astype(np.float64))[1] - 4, 0).astype(np.int64)
    return np.where(lengths < 8, lengths, (lengths >> shift) & 7 | (shift + 1) << 3)


def decode_length(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The smallest length with each code."""
    return np.where(codes < 8, codes & 7, (codes & 7 | 8) << np.maximum((codes >> 3) - 1, 0))
