"""A full-text search whose rows without an index are analyzed in pieces, in any order and in any process.

A piece gives the documents that have a word of the query, and counts all of them. Scores need the counts of all pieces,
so that they are computed where these come together: analyzing texts is what takes the time, and it is done once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyroaring

from lance_spark.analysis.parameters import TextParameters
from lance_spark.index.text.documents import query_tokens
from lance_spark.index.text.found import FoundPart
from lance_spark.index.text.items import Granularity
from lance_spark.index.text.queries import BestQuery, MatchQuery, TextQuery
from lance_spark.table.reading.pieces import PartFragment, Piece, pieces_of
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.search.text_columns import KnownRows
from lance_spark.table.search.text_search import SearchedPart, SearchRequest, searched

_UNKNOWN_BYTES = 64 << 20
"""Assumed of a fragment that does not say how large its files are, as old writers left them."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Rows of a column without an index.

    Attributes:
        number: pieces of a column are in the order of their rows.
        terms: those of the query.
        parts: the rows.
    """

    number: int
    column: str
    parameters: TextParameters
    terms: frozenset[str]
    parts: Piece


@dataclass(frozen=True, slots=True)
class FoundInPiece:
    """Result of a piece of a search in a part.

    Attributes:
        key: of the part.
    """

    piece: TextPiece
    key: str | None
    fragment_ids: pyroaring.BitMap
    found: FoundPart


@dataclass(frozen=True, slots=True)
class DividedTextSearch:
    """The pieces of a search, and the bytes of files that all of them read; none for a query that is not divided."""

    pieces: tuple[TextPiece, ...]
    num_bytes: int


def divided(request: SearchRequest, parts: Sequence[SearchedPart], piece_bytes: int) -> DividedTextSearch:
    """The pieces of a search for words in some columns; other queries have none.

    Args:
        piece_bytes: about this many bytes of files are read for a piece.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column is not text.
    """
    columns, query = searched(request, parts)
    pieces: list[TextPiece] = []
    num_bytes = 0
    for match in _matches_of(query):
        column = match.column or ""
        uncovered = [item.uncovered(column, match.document_granularity) for item in columns]
        if any(found.granularity is not Granularity.ROW for found in uncovered):
            return DividedTextSearch((), 0)
        fragments = [
            PartFragment(part.key, fragment.id, _size(fragment))
            for part, found in zip(parts, uncovered, strict=True)
            for fragment in found.fragments
        ]
        num_bytes += sum(fragment.num_bytes for fragment in fragments)
        # Partitions can have indexes of different analyses.
        for parameters in dict.fromkeys(found.parameters for found in uncovered):
            keys = {part.key for part, found in zip(parts, uncovered, strict=True) if found.parameters == parameters}
            terms = frozenset(token.text for token in query_tokens(parameters, match.query))
            own = [fragment for fragment in fragments if fragment.part_key in keys]
            for piece in pieces_of(own, piece_bytes):
                pieces.append(TextPiece(len(pieces), column, parameters, terms, piece))
    return DividedTextSearch(tuple(pieces), num_bytes)


def found_in(piece: TextPiece, request: SearchRequest, parts: Sequence[SearchedPart]) -> Iterator[FoundInPiece]:
    """Yields the result of a piece in each part that it has rows of. Raises as `divided`."""
    by_key = {item.key: item.fragment_ids for item in piece.parts}
    chosen = [part for part in parts if part.key in by_key]
    for part, columns in zip(chosen, searched(request, chosen)[0], strict=True):
        ids = by_key[part.key]
        found = columns.analyzed(piece.column, ids, piece.parameters)
        yield FoundInPiece(piece, part.key, ids, FoundPart.of(found, piece.terms))


def knowing(request: SearchRequest, results: Iterable[FoundInPiece]) -> SearchRequest:
    """The search whose pieces have found `results`."""
    grouped: dict[tuple[str | None, str], list[FoundInPiece]] = {}
    for result in sorted(results, key=lambda item: item.piece.number):
        grouped.setdefault((result.key, result.piece.column), []).append(result)
    known: dict[str | None, dict[str, KnownRows]] = {}
    for (key, column), items in grouped.items():
        ids = pyroaring.BitMap.union(*(item.fragment_ids for item in items))
        rows = KnownRows(ids, items[0].piece.parameters, FoundPart.joined([item.found for item in items]))
        known.setdefault(key, {})[column] = rows
    return replace(request, known=known)


def _matches_of(query: TextQuery) -> list[MatchQuery]:
    """The searches for words in columns; empty for a query that needs more than the documents of its own terms."""
    if isinstance(query, MatchQuery) and query.fuzziness == 0:
        return [query]
    if isinstance(query, BestQuery):
        found = [_matches_of(inner) for inner in query.queries]
        columns = [match.column for inner in found for match in inner]
        if all(found) and len(set(columns)) == len(columns):
            return [match for inner in found for match in inner]
    return []


def _size(fragment: DataFragment) -> int:
    sizes = [file.size_bytes for file in fragment.files]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else _UNKNOWN_BYTES
