"""A searchable part of a column: a partition of an index segment, or rows that were read for one query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.token_numbers import TokenNumbers
from lance_spark.cached import cached_property
from lance_spark.index.text.bm25 import norms_of
from lance_spark.index.text.dictionary import Dictionary
from lance_spark.index.text.items import UInt32Array

_TERM_BYTES = 250
"""Of a term in a dictionary of Python, and in an array of its own."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The documents of a term.

    Attributes:
        docs: int32[n], ascending numbers of documents.
        freqs: int32[n], how often the term is in each of them.
    """

    docs: npt.NDArray[np.int32]
    freqs: npt.NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.docs.nbytes + self.freqs.nbytes


class TextPart(ABC):
    """Documents numbered from 0. Those that are rows have at least one term each.

    Attributes:
        num_docs: documents.
        total_tokens: terms of all documents, repeated ones counted.
        has_positions: whether `positions` can be called.
    """

    num_docs: int
    total_tokens: int
    has_positions: bool

    @property
    def all_docs(self) -> int:
        """The documents, and others that are only counted."""
        return self.num_docs

    @abstractmethod
    def find(self, term: str) -> int | None:
        """The number of a term; None if no document has it."""

    @abstractmethod
    def prefetch(self, terms: Iterable[str], *, with_positions: bool) -> None:
        """Reads the documents of some terms together, and positions, where each would be a read of its own."""

    @abstractmethod
    def within(self, term: str, distance: int, prefix_length: int) -> list[str]:
        """The terms within an edit distance; see `Dictionary.within`."""

    @abstractmethod
    def frequency(self, term: int) -> int:
        """In how many documents a term is."""

    @abstractmethod
    def postings(self, term: int) -> Postings:
        """The documents of a term."""

    @abstractmethod
    def positions(self, term: int) -> npt.NDArray[np.int32]:
        """int32: the positions of a term, ascending in each document, document after document."""

    @abstractmethod
    def norms(self, average: np.float32) -> npt.NDArray[np.float32]:
        """float32[num_docs]: `norms_of` the documents, if documents have this many terms on average."""

    @property
    @abstractmethod
    def row_ids(self) -> npt.NDArray[np.uint64]:
        """uint64[num_docs]: the row of each document."""

    def row_ids_at(self, docs: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        """uint64[n]: the rows of documents (int32[n], ascending, distinct)."""
        return self.row_ids[docs]

    @property
    def items(self) -> UInt32Array | None:
        """uint32[num_docs, levels]: the numbers of documents in the lists of their rows; None if documents are rows."""
        return None

    @property
    def item_levels(self) -> int:
        """Number of positions that identify documents that are items of lists; 0 for rows."""
        return 0 if self.items is None else int(self.items.shape[1])


class AnalyzedPart(TextPart):
    """Documents in memory.

    Attributes:
        lengths: int64[num_docs], the terms of each document.

    Args:
        terms: the terms by number.
        tokens: int32[m], the terms of the documents, document after document.
        positions: int32[m], their positions.
        offsets: int64[n + 1], where the tokens of each row start.
        row_ids: uint64[n]; rows without terms are no documents.
        items: uint32[n, levels], of documents that are items of lists.
    """

    has_positions = True

    def __init__(
        self,
        terms: TokenNumbers,
        tokens: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int64],
        row_ids: npt.NDArray[np.uint64],
        items: UInt32Array | None = None,
    ) -> None:
        counts = np.diff(offsets)
        is_document = counts > 0 if items is None else np.ones(len(counts), np.bool_)
        self._items = items
        self._terms = terms
        self._tokens = tokens
        self._found: dict[int, npt.NDArray[np.int64]] = {}
        self._positions = positions
        self._row_ids = row_ids[is_document]
        self.lengths = counts[is_document]
        self.num_docs = len(self._row_ids)
        self.total_tokens = len(tokens)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, with what searches keep: the places of tokens by term and the numbers of terms."""
        items = 0 if self._items is None else self._items.nbytes
        return 20 * len(self._tokens) + 16 * self.num_docs + _TERM_BYTES * len(self._terms) + items

    def find(self, term: str) -> int | None:
        number = self._numbers.get(term)
        return number if number is not None and len(self._places(number)) else None

    def prefetch(self, terms: Iterable[str], *, with_positions: bool) -> None:
        """Nothing: they are in memory."""

    def within(self, term: str, distance: int, prefix_length: int) -> list[str]:
        return [
            found for found in self._dictionary.within(term, distance, prefix_length) if self.find(found) is not None
        ]

    def frequency(self, term: int) -> int:
        return len(self.postings(term).docs)

    def postings(self, term: int) -> Postings:
        docs, freqs = np.unique(self._doc_of_token[self._places(term)], return_counts=True)
        return Postings(docs.astype(np.int32), freqs.astype(np.int32))

    def positions(self, term: int) -> npt.NDArray[np.int32]:
        return self._positions[self._places(term)]

    def norms(self, average: np.float32) -> npt.NDArray[np.float32]:
        return norms_of(self.lengths, average)

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        return self._row_ids

    @property
    def items(self) -> UInt32Array | None:
        return self._items

    def _places(self, term: int) -> npt.NDArray[np.int64]:
        if term not in self._found:
            self._found[term] = np.flatnonzero(self._tokens == term)
        return self._found[term]

    @cached_property
    def _doc_of_token(self) -> npt.NDArray[np.int32]:
        return np.repeat(np.arange(self.num_docs, dtype=np.int32), self.lengths)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {term: number for number, term in enumerate(self._terms)}

    @cached_property
    def _dictionary(self) -> Dictionary:
        return Dictionary.of_terms(self._terms)
