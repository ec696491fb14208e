"""Evaluating a query over all parts of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.parameters import TextParameters
from lance_spark.index.text.best import DocRows, Phrase, Wanted, best_matches
from lance_spark.index.text.matching import DocScores, Word, by_position, match_phrase, match_words, words_of
from lance_spark.index.text.part import TextPart
from lance_spark.index.text.partition import Partition
from lance_spark.index.text.queries import (
    BestQuery,
    BooleanQuery,
    BoostQuery,
    MatchQuery,
    PhraseQuery,
    TextQuery,
)
from lance_spark.index.text.scoring import Statistics
from lance_spark.storage.cache import cached_part

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

    def rows(self) -> DocRows:
        """Where all documents are."""

        def make() -> tuple[DocRows, int]:
            row_ids = self.part.row_ids
            addresses, exists = self.locate(row_ids)
            if addresses is row_ids and isinstance(self.part, Partition):
                ascend = self.part.row_ids_ascend
            else:
                ascend = bool(np.all(addresses[1:] > addresses[:-1]))
            rows = DocRows.of(addresses, exists, ascend=ascend)
            shared = 0 if addresses is row_ids else rows.addresses.nbytes
            return rows, shared + (0 if rows.is_live is None else rows.is_live.nbytes)

        return cached_part(self, "rows", make)


@dataclass(frozen=True)
class TextColumn:
    """Everything that a search in one column reads.

    Attributes:
        parameters: how the words of queries are analyzed.
        indexed: the parts of the index.
        scanned: rows without an index, or None.
        other_indexed, other_scanned: parts of the same column in other partitions of the table, which count for the
            statistics.
    """

    parameters: TextParameters
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

    def prefetch(self, words: Sequence[Word], *, with_positions: bool = False) -> None:
        """Reads what all parts have of the terms of some words, those of a part together."""
        terms = [term for word in words for term in word.terms]
        for part in self.parts:
            # Parts in other partitions only count words here.
            part.prefetch(terms, with_positions=with_positions and part in self.indexed_parts)

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


def search(query: TextQuery, columns: Columns, limit: int | None = None) -> RowScores:
    """The rows that match a query.

    Args:
        query: names a column everywhere (`TextQuery.on`).
        limit: rows that are not among this many best ones may be left out; of equal ones the first are the best.

    Raises:
        LanceError: a column cannot be searched, or cannot be read.
    """
    if isinstance(query, MatchQuery):
        return _match(query, columns(query.column or "", False), limit)
    if isinstance(query, PhraseQuery):
        return _phrase(query, columns(query.column or "", True), limit)
    if isinstance(query, BestQuery):
        # Rows before which there are enough better ones in their best column are not wanted.
        return _best([search(inner, columns, limit) for inner in query.queries])
    if isinstance(query, BoostQuery):
        return _boosted(search(query.positive, columns), search(query.negative, columns), query.negative_boost)
    if isinstance(query, BooleanQuery):
        return _boolean(query, columns)
    return search(query.on(()), columns, limit)


def _match(query: MatchQuery, column: TextColumn, limit: int | None) -> RowScores:
    words = words_of(query, column.parameters, column.parts)
    column.prefetch(words)
    boost = np.float32(query.boost)

    def every(part: TextPart, statistics: Statistics) -> DocScores:
        found = match_words(part, words, query.operator, statistics)
        return DocScores(found.docs, found.scores * boost)

    def best(part: Partition, statistics: Statistics, rows: DocRows, wanted: Wanted) -> DocScores | None:
        return best_matches(part, words, query.operator, statistics, rows, wanted)

    return _found(column, every, best, limit, boost)


def _phrase(query: PhraseQuery, column: TextColumn, limit: int | None) -> RowScores:
    placed = by_position(column.parameters, query.query)
    words = list(placed.values())
    column.prefetch(words, with_positions=len(words) > 1)
    gaps = (0, *(position - before for before, position in pairwise(placed)))
    is_plain = all(len(word.terms) == 1 for word in words)

    def every(part: TextPart, statistics: Statistics) -> DocScores:
        return match_phrase(part, words, gaps, query.slop, statistics)

    def best(part: Partition, statistics: Statistics, rows: DocRows, wanted: Wanted) -> DocScores | None:
        if len(words) < 2:
            return best_matches(part, words, "AND", statistics, rows, wanted)
        if not part.has_shared_positions or not is_plain:
            return None
        return best_matches(part, words, "AND", statistics, rows, wanted, Phrase(gaps, query.slop))

    return _found(column, every, best, limit, np.float32(1))


def _found(
    column: TextColumn,
    every: Callable[[TextPart, Statistics], DocScores],
    best: Callable[[Partition, Statistics, DocRows, Wanted], DocScores | None],
    limit: int | None,
    boost: np.float32,
) -> RowScores:
    """The rows of all parts of a column.

    Args:
        every: finds all documents of a part.
        best: finds the best of a partition, if it can.
    """
    found: list[RowScores] = []
    scores = np.empty(0, np.float32)
    for sources, statistics in column.groups():
        for source in sources:
            docs = None
            if limit and isinstance(source.part, Partition):
                lowest = np.float32(-np.inf) if len(scores) < limit else scores[-1]
                rows = source.rows()
                docs = best(source.part, statistics, rows, Wanted(limit, lowest, boost))
            if docs is None:
                found.append(_located(source, every(source.part, statistics)))
            else:
                found.append(RowScores(rows.addresses[docs.docs], docs.scores))
            if limit:
                scores = -np.sort(-np.concatenate([scores, found[-1].scores]))[:limit]
    return _joined(found)


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
