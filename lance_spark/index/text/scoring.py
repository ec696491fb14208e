"""BM25, in 32-bit floating point in the order of operations of the reference library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.index.text.part import Postings, TextPart

_K1 = np.float32(1.2)
_B = np.float32(0.75)
_ONE = np.float32(1)
_HALF = np.float32(0.5)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the score of a document depends on besides the document.

    Attributes:
        num_docs: all documents.
        total_tokens: their terms.
        parts: where terms are counted.
    """

    num_docs: int
    total_tokens: int
    parts: tuple[TextPart, ...]

    @classmethod
    def of(cls, parts: Iterable[TextPart]) -> Statistics:
        """The statistics of some parts."""
        known = tuple(parts)
        return cls(sum(part.num_docs for part in known), sum(part.total_tokens for part in known), known)

    def idf(self, term: str) -> np.float32:
        """How much a term counts: the more, the fewer documents have it."""
        numbers = ((part, part.find(term)) for part in self.parts)
        found = sum(part.frequency(number) for part, number in numbers if number is not None)
        weight: np.float32 = self.idf_of(np.array([found], np.int64))[0]
        return weight

    def idf_of(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """float32[n]: how much terms count that are in this many documents."""
        found = counts.astype(np.float32)
        ratios = (np.float32(self.num_docs) - found + _HALF) / (found + _HALF) + _ONE
        weights: npt.NDArray[np.float32] = np.log(ratios.astype(np.float64)).astype(np.float32)
        return weights

    def weights(self, postings: Postings, lengths: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """float32[n]: how much the occurrences of a term in documents count.

        Args:
            lengths: float32, terms of each document of the part.
        """
        average = np.float32(self.total_tokens) / np.float32(max(self.num_docs, 1))
        freqs = postings.freqs.astype(np.float32)
        norms = _K1 * (_ONE - _B + _B * lengths[postings.docs] / average)
        weights: npt.NDArray[np.float32] = (_K1 + _ONE) * freqs / (freqs + norms)
        return weights
