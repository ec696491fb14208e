"""The best documents of a partition for a query, without decoding and scoring all of its documents.

Scores, and which of several documents with the same score are chosen, are those of `matching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.index.text.matching import DocScores, Word
from lance_spark.index.text.partition import Partition
from lance_spark.index.text.scoring import Statistics
from lance_spark.index.text.stored import StoredPositions, room_for_positions
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text import best as kernel

_MAX_TERMS = 64
"""Each candidate is compared with all terms; with more of them it is faster to add up all scores, term by term."""

_MANY_MORE = 8
"""Words with this many times the blocks of the rarest one end no ranges: its documents are in few of their blocks."""


@dataclass(frozen=True, slots=True)
class DocRows:
    """Rows of the documents of a part in the table.

    Attributes:
        addresses: uint64[n], of their rows; None if they are the row ids of the part.
        order: uint64[n], ascending in the order of the table; None if that is the order of the documents.
        is_live: uint8[n], 1 for documents whose rows exist; None if all do.
    """

    addresses: npt.NDArray[np.uint64] | None
    order: npt.NDArray[np.uint64] | None
    is_live: npt.NDArray[np.uint8] | None

    @classmethod
    def of(
        cls,
        addresses: npt.NDArray[np.uint64] | None,
        exists: npt.NDArray[np.bool_],
        order: npt.NDArray[np.uint64] | None,
    ) -> DocRows:
        """From the addresses (uint64[n]), which of the rows exist (bool[n]), and their order."""
        return cls(addresses, order, None if exists.all() else exists.view(np.uint8))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents are wanted.

    Attributes:
        limit: how many at most, > 0; of equal ones the first rows.
        lowest: none with a lower score.
        boost: what scores are multiplied with.
    """

    limit: int
    lowest: np.float32
    boost: np.float32


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must be in order.

    Attributes:
        gaps: how far each word is from the one before, one for each word.
        slop: how many other words may stand between two of them.
    """

    gaps: tuple[int, ...]
    slop: int


@dataclass(frozen=True, slots=True)
class _Term:
    number: int
    word: int
    weight: np.float32


def best_matches(
    part: Partition,
    words: Sequence[Word],
    operator: str,
    statistics: Statistics,
    rows: DocRows,
    wanted: Wanted,
    phrase: Phrase | None = None,
) -> DocScores | None:
    """The best documents with any (OR) or all (AND) of the words; None if there are too many terms.

    Args:
        phrase: if the words must also be in order; each of them is one term then, and `operator` is AND.

    Raises:
        CorruptFileError: a posting list is damaged.
    """
    found: list[tuple[int, int, str]] = []
    for place, word in enumerate(words):
        numbers = sorted((number, term) for term in word.terms if (number := part.find(term)) is not None)
        if not numbers and operator == "AND":
            return DocScores.none()
        found += [(number, place, term) for number, term in numbers]
    if not found:
        return DocScores.none()
    if len(found) > _MAX_TERMS:
        return None
    weights = statistics.idfs([term for *_, term in found])
    terms = [_Term(number, place, weight) for (number, place, _), weight in zip(found, weights, strict=True)]
    return _Run(part, terms, statistics.average, phrase).best(operator, rows, wanted)


class _Run:
    """One call of the kernel, and the arrays that it needs.

    Each distinct term is decoded once; one that is several times in the query has a row of its own each time.
    """

    def __init__(self, part: Partition, terms: Sequence[_Term], average: np.float32, phrase: Phrase | None) -> None:
        self._part = part
        self._terms = terms
        self._norms = part.norms(average)
        self._phrase = phrase
        self._kept: list[npt.NDArray[np.generic]] = []
        numbers = sorted({term.number for term in terms})
        known = dict(zip(numbers, part.searched(numbers, average), strict=True))
        self._searched = [known[term.number] for term in terms]
        self._table = np.array(self._rows(), np.int64)
        if phrase is not None:
            positions = dict(zip(numbers, part.stored_positions(numbers), strict=True))
            self._add_positions(phrase, [positions[term.number] for term in terms])
        both = zip(terms, self._searched, strict=True)
        self._highest = [term.weight * searched.highest for term, searched in both]
        self._table[:, kernel.RANK] = np.argsort(np.array(self._highest), kind="stable")

    def _rows(self) -> list[list[int]]:
        """Rows of the kernel's table, one for each term."""
        block = self._part.block
        room = self._address(np.empty(2 * block * len(self._terms), np.int32))
        rows = []
        for place, (term, searched) in enumerate(zip(self._terms, self._searched, strict=True)):
            row = list(searched.fields)
            row[kernel.WORD] = term.word
            row[kernel.DOCS] = room + 8 * block * place
            row[kernel.FREQS] = row[kernel.DOCS] + 4 * block
            rows.append(row)
        return rows

    def _add_positions(self, phrase: Phrase, stored: Sequence[StoredPositions]) -> None:
        for row, term, searched, positions in zip(self._table, self._terms, self._searched, stored, strict=True):
            found = room_for_positions(self._part.lists_file, searched.most_positions, len(positions.data))
            row[kernel.POSITION_BYTES] = self._address(positions.data)
            row[kernel.NUM_POSITION_BYTES] = len(positions.data)
            row[kernel.POSITION_STARTS] = self._address(positions.starts)
            row[kernel.POSITIONS] = self._address(found)
            row[kernel.MOST_POSITIONS] = len(found)
            row[kernel.GAP] = phrase.gaps[term.word]

    def _address(self, array: npt.NDArray[np.generic]) -> int:
        self._kept.append(array)
        return address_of(array)

    def best(self, operator: str, rows: DocRows, wanted: Wanted) -> DocScores:
        limit = min(wanted.limit, self._part.num_docs)
        most = max(searched.most_positions for searched in self._searched) if self._phrase is not None else 0
        leading_word = self._rarest_word() if operator == "AND" else -1
        if leading_word >= 0:
            sizes, words = self._table[:, kernel.NUM_BLOCKS], self._table[:, kernel.WORD]
            few_blocks = _MANY_MORE * sizes[words == leading_word].sum()
            self._table[:, kernel.IS_LOOKED_UP] = (words != leading_word) & (sizes > few_blocks)
        numbers = [
            len(self._terms),
            int(operator == "AND"),
            leading_word,
            int(self._phrase is not None),
            0 if self._phrase is None else self._phrase.slop,
            self._part.block,
            int(self._part.has_varints),
            self._part.num_docs,
            limit,
            address_of(self._norms),
            0 if rows.is_live is None else address_of(rows.is_live),
            0 if rows.order is None else address_of(rows.order),
            self._address(np.empty(2 * most, np.int32)),
        ]
        weights = [term.weight for term in self._terms]
        floats = np.array([*weights, *weights, *self._highest, wanted.boost, wanted.lowest], np.float32)
        docs, scores = np.empty(limit, np.int32), np.empty(limit, np.float32)
        settings = np.array(numbers, np.int64)
        found = kernel.best_documents(
            address_of(self._table), address_of(settings), address_of(floats), address_of(docs), address_of(scores)
        )
        if found < 0:
            raise self._part.lists_file.damaged("the posting lists or positions of a query are damaged")
        order = np.argsort(docs[:found])
        return DocScores(docs[order], scores[order])

    def _rarest_word(self) -> int:
        counts: dict[int, int] = {}
        for term, searched in zip(self._terms, self._searched, strict=True):
            counts[term.word] = counts.get(term.word, 0) + searched.stored.count
        return min(counts, key=counts.__getitem__)
