"""Evaluating a query over all parts of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.parameters import TextParameters
from lance_spark.errors import InvalidInputError
from lance_spark.index.text.best import DocRows, Phrase, Wanted, best_matches
from lance_spark.index.text.items import UInt32Array, ascend, keys_of, of_keys, ranks_of
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


Keys = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class RowScores:
    """Matching rows, or items of the lists of rows.

    Attributes:
        addresses: uint64[n], ascending; distinct for rows.
        scores: float32[n].
        items: uint32[n, levels], the numbers of items in the lists of their rows, ascending in each; None for rows.
    """

    addresses: npt.NDArray[np.uint64]
    scores: npt.NDArray[np.float32]
    items: UInt32Array | None = None

    @classmethod
    def none(cls, item_levels: int = 0) -> RowScores:
        """No rows, or no items of lists, which have a number at each of some levels."""
        items = np.empty((0, item_levels), np.uint32) if item_levels else None
        return cls(np.empty(0, np.uint64), np.empty(0, np.float32), items)

    @classmethod
    def of_keys(cls, keys: Keys, scores: npt.NDArray[np.float32]) -> RowScores:
        """From ascending, distinct `keys`."""
        addresses, items = of_keys(keys)
        return cls(addresses, scores, items)

    @property
    def keys(self) -> Keys:
        """Keys of the rows, or items, ascending."""
        return keys_of(self.addresses, self.items)

    def at(self, keys: Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """(int64[n] places of these keys, bool[n]: which of them are here)."""
        own = self.keys
        if not len(own):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(own, keys), len(own) - 1)
        return places, own[places] == keys

    def keep(self, kept: npt.NDArray[np.bool_ | np.int64]) -> RowScores:
        """The rows for which `kept` (bool[n]) is true, or those at places (int64[n])."""
        return RowScores(self.addresses[kept], self.scores[kept], None if self.items is None else self.items[kept])

    def by_row(self) -> RowScores:
        """The rows, with the best score of their items."""
        if self.items is None or not len(self.scores):
            return RowScores(self.addresses, self.scores)
        is_first = np.concatenate([[True], self.addresses[1:] != self.addresses[:-1]])
        starts = np.flatnonzero(is_first)
        return RowScores(self.addresses[starts], np.maximum.reduceat(self.scores, starts))


@dataclass(frozen=True)
class LocatedPart:
    """A part of a column and where its rows are."""

    part: TextPart
    locate: Locate

    def rows(self) -> DocRows:
        """Rows of all documents in the table."""

        def make() -> tuple[DocRows, int]:
            row_ids = self.part.row_ids
            addresses, exists = self.locate(row_ids)
            items = self.part.items
            if addresses is row_ids and isinstance(self.part, Partition):
                is_ascending = self.part.row_ids_ascend
            else:
                is_ascending = ascend(addresses, items)
            order = None if is_ascending else ranks_of(addresses, items)
            rows = DocRows.of(None if addresses is row_ids else addresses, exists, order)
            own = (rows.addresses, rows.order, rows.is_live)
            return rows, sum(0 if array is None else array.nbytes for array in own)

        return cached_part(self, "rows", make)

    def addresses_of(self, docs: npt.NDArray[np.int32], rows: DocRows) -> npt.NDArray[np.uint64]:
        """uint64[n]: the rows of documents (int32[n], ascending, distinct); `rows` are those of all."""
        return self.part.row_ids_at(docs) if rows.addresses is None else rows.addresses[docs]


@dataclass(frozen=True)
class TextColumn:
    """Everything that a search in one column reads.

    Attributes:
        parameters: how the words of queries are analyzed.
        indexed: the parts of the index.
        scanned: rows without an index, or None.
        item_levels: how many numbers documents have that are items of lists; 0 for rows.
        other_indexed, other_scanned: parts of the same column in other partitions of the table, which count for the
            statistics.
    """

    parameters: TextParameters
    indexed: tuple[LocatedPart, ...]
    scanned: LocatedPart | None
    item_levels: int = 0
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

    def groups(self) -> list[tuple[tuple[LocatedPart, ...], Statistics]]:
        """Parts with the statistics for their scores.

        As in the reference library, rows without an index count for the scores of each other only.
        """
        found = [(self.indexed, Statistics.of((*self.indexed_parts, *self.other_indexed)))] if self.indexed else []
        if self.scanned is not None:
            found.append(((self.scanned,), Statistics.of(self.parts)))
        return found


Columns = Callable[[str, bool, str | None], TextColumn]
"""From the name of a column, whether positions are needed, and the granularity of documents, to what is searched."""


def search(query: TextQuery, columns: Columns, limit: int | None = None) -> RowScores:
    """The rows that match a query.

    Args:
        query: names a column everywhere (`TextQuery.on`).
        limit: rows that are not among this many best ones may be left out; of equal ones the first are the best.

    Raises:
        InvalidInputError: items of one column and other documents are searched together.
        LanceError: a column cannot be searched, or cannot be read.
    """
    if not isinstance(query, (MatchQuery, PhraseQuery)):
        _check_documents(query, columns)
    return _search(query, columns, limit)


def _search(query: TextQuery, columns: Columns, limit: int | None = None) -> RowScores:
    if isinstance(query, MatchQuery):
        return _match(query, _column(query, columns), limit)
    if isinstance(query, PhraseQuery):
        return _phrase(query, _column(query, columns), limit)
    if isinstance(query, BestQuery):
        # Rows before which there are enough better ones in their best column are not wanted.
        return _best([_search(inner, columns, limit) for inner in query.queries])
    if isinstance(query, BoostQuery):
        return _boosted(_search(query.positive, columns), _search(query.negative, columns), query.negative_boost)
    if isinstance(query, BooleanQuery):
        return _boolean(query, columns)
    return _search(query.on(()), columns, limit)


def _column(query: MatchQuery | PhraseQuery, columns: Columns) -> TextColumn:
    return columns(query.column or "", isinstance(query, PhraseQuery), query.document_granularity)


def _check_documents(query: TextQuery, columns: Columns) -> None:
    """Items of lists are compared with items of the same column only."""
    leaves = list(query.leaves())
    has_items = [_column(leaf, columns).item_levels > 0 for leaf in leaves]
    if any(has_items) and not (all(has_items) and len({leaf.column for leaf in leaves}) == 1):
        raise InvalidInputError(
            "the items of a list column cannot be searched together with rows or with another column; set "
            "document_granularity to ROW, or ask for each column by itself"
        )


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
            if limit and found:
                scores = -np.sort(-np.concatenate([scores, found[-1].scores]))[:limit]
            if limit and isinstance(source.part, Partition):
                lowest = np.float32(-np.inf) if len(scores) < limit else scores[-1]
                rows = source.rows()
                docs = best(source.part, statistics, rows, Wanted(limit, lowest, boost))
            if docs is None:
                found.append(_located(source, every(source.part, statistics)))
            else:
                items = source.part.items
                own = None if items is None else items[docs.docs]
                found.append(RowScores(source.addresses_of(docs.docs, rows), docs.scores, own))
    return _joined(found) if found else RowScores.none(column.item_levels)


def _located(source: LocatedPart, found: DocScores) -> RowScores:
    addresses, exists = source.locate(source.part.row_ids_at(found.docs))
    items = source.part.items
    return RowScores(addresses, found.scores, None if items is None else items[found.docs]).keep(exists)


def _joined(parts: Sequence[RowScores]) -> RowScores:
    """Rows of parts that have no row in common."""
    if len(parts) == 1 and ascend(parts[0].addresses, parts[0].items):
        return parts[0]
    addresses = np.concatenate([part.addresses for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    found = [part.items for part in parts if part.items is not None]
    items = np.concatenate(found) if found else None
    joined = RowScores(addresses, scores, items)
    return joined if ascend(addresses, items) else joined.keep(np.argsort(joined.keys).astype(np.int64, copy=False))


def _best(parts: Sequence[RowScores]) -> RowScores:
    keys = _union(parts)
    scores = np.full(len(keys), -np.inf, np.float32)
    for part in parts:
        places = np.searchsorted(keys, part.keys)
        scores[places] = np.maximum(scores[places], part.scores)
    return RowScores.of_keys(keys, scores)


def _boosted(positive: RowScores, negative: RowScores, factor: float) -> RowScores:
    places, is_there = negative.at(positive.keys)
    scores = positive.scores.copy()
    scores[is_there] -= np.float32(factor) * negative.scores[places[is_there]]
    return RowScores(positive.addresses, scores, positive.items)


def _boolean(query: BooleanQuery, columns: Columns) -> RowScores:
    must = [_search(inner, columns) for inner in query.must]
    should = [_search(inner, columns) for inner in query.should]
    keys = reduce(np.intersect1d, [part.keys for part in must]) if must else _union(should)
    for inner in query.must_not:
        _, is_there = _search(inner, columns).at(keys)
        keys = keys[~is_there]
    return RowScores.of_keys(keys, _summed(must, keys) + _summed(should, keys))


def _summed(parts: Sequence[RowScores], keys: Keys) -> npt.NDArray[np.float32]:
    scores = np.zeros(len(keys), np.float32)
    for part in parts:
        places, is_there = part.at(keys)
        scores[is_there] += part.scores[places[is_there]]
    return scores


def _union(parts: Sequence[RowScores]) -> Keys:
    return np.unique(np.concatenate([part.keys for part in parts])) if parts else np.empty(0, np.uint64)
