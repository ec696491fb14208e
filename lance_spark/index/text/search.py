"""Evaluating a query over all parts of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.analyzer import Analyzer
from lance_spark.index.text.matching import DocScores, match_phrase, match_words, words_of
from lance_spark.index.text.part import TextPart
from lance_spark.index.text.queries import (
    BestQuery,
    BooleanQuery,
    BoostQuery,
    MatchQuery,
    PhraseQuery,
    TextQuery,
)
from lance_spark.index.text.scoring import Statistics

Locate = Callable[[npt.NDArray[np.uint64]], tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]]
"""From row ids (uint64[n]) to row addresses (uint64[n]), and which of the rows exist (bool[n])."""


@dataclass(frozen=True, slots=True)
class RowScores:
    """Matching rows.

    Attributes:
        addresses: uint64[n], ascending, distinct.
        scores: float32[n].
    """

    addresses: npt.NDArray[np.uint64]
    scores: npt.NDArray[np.float32]

    @classmethod
    def none(cls) -> RowScores:
        """No rows."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.float32))

    def at(self, addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """(int64[n] places of these addresses, bool[n]: which of them are here)."""
        if not len(self.addresses):
            return np.zeros(len(addresses), np.int64), np.zeros(len(addresses), np.bool_)
        places = np.minimum(np.searchsorted(self.addresses, addresses), len(self.addresses) - 1)
        return places, self.addresses[places] == addresses

    def keep(self, kept: npt.NDArray[np.bool_]) -> RowScores:
        """The rows for which `kept` (bool[n]) is true."""
        return RowScores(self.addresses[kept], self.scores[kept])


@dataclass(frozen=True)
class Source:
    """A part of a column and where its rows are."""

    part: TextPart
    locate: Locate


@dataclass(frozen=True)
class TextColumn:
    """Everything that a search in one column reads.

    Attributes:
        analyzer: analyzes the words of queries.
        indexed: the parts of the index.
        scanned: rows without an index, or None.
        other_indexed, other_scanned: parts of the same column in other partitions of the table, which count for the
            statistics.
    """

    analyzer: Analyzer
    indexed: tuple[Source, ...]
    scanned: Source | None
    other_indexed: tuple[TextPart, ...] = ()
    other_scanned: tuple[TextPart, ...] = ()

    @property
    def indexed_parts(self) -> tuple[TextPart, ...]:
        """The parts of the index."""
        return tuple(source.part for source in self.indexed)

    @property
    def scanned_parts(self) -> tuple[TextPart, ...]:
        """The parts that were read."""
        return () if self.scanned is None else (self.scanned.part,)

    @property
    def parts(self) -> tuple[TextPart, ...]:
        """All parts of the column, those in other partitions included."""
        return (*self.indexed_parts, *self.other_indexed, *self.scanned_parts, *self.other_scanned)

    def groups(self) -> list[tuple[tuple[Source, ...], Statistics]]:
        """Parts with the statistics for their scores.

        As in the reference library, rows without an index count for the scores of each other only.
        """
        found = [(self.indexed, Statistics.of((*self.indexed_parts, *self.other_indexed)))] if self.indexed else []
        if self.scanned is not None:
            found.append(((self.scanned,), Statistics.of(self.parts)))
        return found


Columns = Callable[[str, bool], TextColumn]
"""From the name of a column, and whether positions are needed, to what is searched."""


def search(query: TextQuery, columns: Columns) -> RowScores:
    """The rows that match a query.

    Args:
        query: names a column everywhere (`TextQuery.on`).

    Raises:
        LanceError: a column cannot be searched, or cannot be read.
    """
    if isinstance(query, MatchQuery):
        return _match(query, columns(query.column or "", False))
    if isinstance(query, PhraseQuery):
        return _phrase(query, columns(query.column or "", True))
    if isinstance(query, BestQuery):
        return _best([search(inner, columns) for inner in query.queries])
    if isinstance(query, BoostQuery):
        return _boosted(search(query.positive, columns), search(query.negative, columns), query.negative_boost)
    if isinstance(query, BooleanQuery):
        return _boolean(query, columns)
    return search(query.on(()), columns)


def _match(query: MatchQuery, column: TextColumn) -> RowScores:
    words = words_of(query, column.analyzer, column.parts)
    rows = _joined(
        [
            _located(source, match_words(source.part, words, query.operator, statistics))
            for sources, statistics in column.groups()
            for source in sources
        ]
    )
    return rows if query.boost == 1 else RowScores(rows.addresses, rows.scores * np.float32(query.boost))


def _phrase(query: PhraseQuery, column: TextColumn) -> RowScores:
    tokens = column.analyzer.tokens(query.query)
    return _joined(
        [
            _located(source, match_phrase(source.part, tokens, query.slop, statistics))
            for sources, statistics in column.groups()
            for source in sources
        ]
    )


def _located(source: Source, found: DocScores) -> RowScores:
    addresses, exists = source.locate(source.part.row_ids[found.docs])
    return RowScores(addresses, found.scores).keep(exists)


def _joined(parts: Sequence[RowScores]) -> RowScores:
    """Rows of parts that have no row in common."""
    if not parts:
        return RowScores.none()
    addresses = np.concatenate([part.addresses for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    if bool(np.all(addresses[1:] > addresses[:-1])):
        return RowScores(addresses, scores)
    order = np.argsort(addresses)
    return RowScores(addresses[order], scores[order])


def _best(parts: Sequence[RowScores]) -> RowScores:
    addresses = _union(parts)
    scores = np.full(len(addresses), -np.inf, np.float32)
    for part in parts:
        places = np.searchsorted(addresses, part.addresses)
        scores[places] = np.maximum(scores[places], part.scores)
    return RowScores(addresses, scores)


def _boosted(positive: RowScores, negative: RowScores, factor: float) -> RowScores:
    places, is_there = negative.at(positive.addresses)
    scores = positive.scores.copy()
    scores[is_there] -= np.float32(factor) * negative.scores[places[is_there]]
    return RowScores(positive.addresses, scores)


def _boolean(query: BooleanQuery, columns: Columns) -> RowScores:
    must = [search(inner, columns) for inner in query.must]
    should = [search(inner, columns) for inner in query.should]
    if must:
        addresses = reduce(np.intersect1d, [part.addresses for part in must])
    else:
        addresses = _union(should)
    for inner in query.must_not:
        _, is_there = search(inner, columns).at(addresses)
        addresses = addresses[~is_there]
    return RowScores(addresses, _summed(must, addresses) + _summed(should, addresses))


def _summed(parts: Sequence[RowScores], addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
    scores = np.zeros(len(addresses), np.float32)
    for part in parts:
        places, is_there = part.at(addresses)
        scores[is_there] += part.scores[places[is_there]]
    return scores


def _union(parts: Sequence[RowScores]) -> npt.NDArray[np.uint64]:
    return np.unique(np.concatenate([np.empty(0, np.uint64), *(part.addresses for part in parts)]))
