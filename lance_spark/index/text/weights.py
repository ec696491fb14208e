"""BM25, in 32-bit floating point in the order of operations of the reference library."""

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
