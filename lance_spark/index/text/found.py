"""Documents that were analyzed elsewhere, reduced to the terms of a search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lance_spark.errors import InvalidInputError
from lance_spark.index.text.bm25 import norms_of
from lance_spark.index.text.part import AnalyzedPart, Postings, TextPart


class FoundPart(TextPart):
    """The documents that have one of some terms; those without are only counted.

    Args:
        all_docs, total_tokens: documents and their terms, with those that are only counted.
        row_ids: uint64[n].
        lengths: int64[n], the terms of each document.
        postings: of the terms, in the order of their first occurrence.
    """

    has_positions = False

    def __init__(
        self,
        all_docs: int,
        total_tokens: int,
        row_ids: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.int64],
        postings: Mapping[str, Postings],
    ) -> None:
        self.num_docs = len(row_ids)
        self.total_tokens = total_tokens
        self._all_docs = all_docs
        self._row_ids = row_ids
        self._lengths = lengths
        self._terms = list(postings)
        self._postings = list(postings.values())

    @classmethod
    def of(cls, part: AnalyzedPart, terms: Collection[str]) -> FoundPart:
        """The documents of `part` that have any of these terms."""
        numbers = {term: part.find(term) for term in terms}
        known = sorted((number, term) for term, number in numbers.items() if number is not None)
        postings = {term: part.postings(number) for number, term in known}
        docs = np.unique(np.concatenate([np.empty(0, np.int32), *(item.docs for item in postings.values())]))
        renumbered = {
            term: Postings(np.searchsorted(docs, item.docs).astype(np.int32), item.freqs)
            for term, item in postings.items()
        }
        return cls(part.num_docs, part.total_tokens, part.row_ids[docs], part.lengths[docs], renumbered)

    @classmethod
    def joined(cls, parts: Sequence[FoundPart]) -> FoundPart:
        """Parts, one after the other, as one: as if their documents had been analyzed together."""
        firsts = np.cumsum([0, *(part.num_docs for part in parts)])
        of_terms: dict[str, list[Postings]] = {}
        for part, first in zip(parts, firsts.tolist(), strict=False):
            for term, item in zip(part._terms, part._postings, strict=True):
                moved = Postings((item.docs + first).astype(np.int32), item.freqs)
                of_terms.setdefault(term, []).append(moved)
        postings = {
            term: Postings(
                np.concatenate([item.docs for item in found]), np.concatenate([item.freqs for item in found])
            )
            for term, found in of_terms.items()
        }
        return cls(
            sum(part.all_docs for part in parts),
            sum(part.total_tokens for part in parts),
            np.concatenate([np.empty(0, np.uint64), *(part.row_ids for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part._lengths for part in parts)]),
            postings,
        )

    @property
    def all_docs(self) -> int:
        return self._all_docs

    def find(self, term: str) -> int | None:
        return self._terms.index(term) if term in self._terms else None

    def prefetch(self, terms: Iterable[str], *, with_positions: bool) -> None:
        """Nothing: they are in memory."""

    def within(self, term: str, distance: int, prefix_length: int) -> list[str]:
        raise InvalidInputError("the terms of a fuzzy word are not known before all documents are analyzed")

    def frequency(self, term: int) -> int:
        return len(self._postings[term].docs)

    def postings(self, term: int) -> Postings:
        return self._postings[term]

    def positions(self, term: int) -> npt.NDArray[np.int32]:
        raise InvalidInputError("positions were not kept")

    def norms(self, average: np.float32) -> npt.NDArray[np.float32]:
        return norms_of(self._lengths, average)

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        return self._row_ids
