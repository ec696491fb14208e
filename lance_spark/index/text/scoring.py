"""Collection statistics of BM25 scores: how many documents have a term, and how long documents are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.index.text.part import TextPart

_ONE = np.float32(1)
_HALF = np.float32(0.5)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Collection statistics that scores depend on.

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
        return cls(sum(part.all_docs for part in known), sum(part.total_tokens for part in known), known)

    def idf(self, term: str) -> np.float32:
        """Inverse document frequency: the weight of a term, larger the fewer documents have it."""
        weight: np.float32 = self.idfs([term])[0]
        return weight

    def idfs(self, terms: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n]: `idf` of some terms."""
        counts = np.zeros(len(terms), np.int64)
        for part in self.parts:
            numbers = [part.find(term) for term in terms]
            counts += [0 if number is None else part.frequency(number) for number in numbers]
        return self.idf_of(counts)

    def idf_of(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """float32[n]: how much terms count that are in this many documents."""
        found = counts.astype(np.float32)
        ratios = (np.float32(self.num_docs) - found + _HALF) / (found + _HALF) + _ONE
        weights: npt.NDArray[np.float32] = np.log(ratios.astype(np.float64)).astype(np.float32)
        return weights

    @property
    def average(self) -> np.float32:
        """Average number of terms of a document."""
        average: np.float32 = np.float32(self.total_tokens) / np.float32(max(self.num_docs, 1))
        return average
