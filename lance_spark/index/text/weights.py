"""BM25, in 32-bit floating point in the order of operations of the reference library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_K1 = np.float32(1.2)
_B = np.float32(0.75)
_ONE = np.float32(1)


def norms_of(lengths: npt.NDArray[np.integer], average: np.float32) -> npt.NDArray[np.float32]:
    """float32[n]: what the lengths of documents, in terms, take from the weight of each occurrence.

    Args:
        average: of the lengths of all documents.
    """
    # k1 * (1 - b + b * length / average), in one array.
    norms = lengths.astype(np.float32)
    norms *= _B
    norms /= average
    norms += _ONE - _B
    norms *= _K1
    return norms


def weights_of(freqs: npt.NDArray[np.int32], norms: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """float32[n]: how much occurrences of a term in documents count."""
    occurrences = freqs.astype(np.float32)
    weights: npt.NDArray[np.float32] = (_K1 + _ONE) * occurrences / (occurrences + norms)
    return weights
