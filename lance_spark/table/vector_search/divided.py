"""A search that is divided into pieces, which are searched one by one, in any order and in any process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyroaring

from lance_spark.table.vector_search.search import Part, Search
from lance_spark.table.vector_search.segments import chosen_segments

_UNKNOWN_ROWS = 1 << 20
"""Assumed of a fragment that does not say how many rows it has, as old writers left them."""


@dataclass(frozen=True, slots=True)
class PartPiece:
    """Fragments of a part.

    Attributes:
        number: of the part, in the order of parts.
        key: of the part, `Part.key`.
        fragment_ids: the fragments.
    """

    number: int
    key: str | None
    fragment_ids: pyroaring.BitMap


Piece = tuple[PartPiece, ...]
"""What is searched together."""


@dataclass(frozen=True, slots=True)
class DividedSearch:
    """The pieces of a search; each fragment is in one at most, in none if it does not have to be searched.

    Attributes:
        segments: one piece for each segment of an index.
        unindexed: the fragments that no index covers.
        num_bytes: of the vectors in `unindexed`.
    """

    segments: tuple[Piece, ...]
    unindexed: tuple[Piece, ...]
    num_bytes: int

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces."""
        return (*self.segments, *self.unindexed)


def divided(search: Search, parts: Sequence[Part], piece_bytes: int) -> DividedSearch:
    """The pieces of a search in `parts`.

    Args:
        search: has a metric; the rows that it finds do not depend on how it is divided.
        piece_bytes: about this many bytes of vectors are compared in a piece of fragments without an index.
    """
    segments: list[Piece] = []
    unindexed: list[_Fragment] = []
    for number, part in enumerate(parts):
        covered = pyroaring.BitMap()
        for ids in _indexed_fragments(search, part):
            if ids - covered:
                segments.append((PartPiece(number, part.key, ids - covered),))
            covered |= ids
        if not (search.index.fast_search and covered):
            unindexed += _unindexed_fragments(search, number, part, covered)
    pieces = tuple(map(_piece, _groups(unindexed, piece_bytes)))
    return DividedSearch(tuple(segments), pieces, sum(fragment.num_bytes for fragment in unindexed))


def of_piece(part: Part, piece: PartPiece) -> Part:
    """`part`, of which only the fragments of a piece are searched."""
    return replace(part, fragment_ids=piece.fragment_ids)


def _indexed_fragments(search: Search, part: Part) -> list[pyroaring.BitMap]:
    scan = part.scan([search.query.column.name], search.searched_filter)
    chosen = chosen_segments(scan, part.manifest, search.query, use_index=search.index.answers(search.query))
    return [ids for _, ids in chosen]


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A fragment of a part, and the bytes of its vectors."""

    part_number: int
    part_key: str | None
    fragment_id: int
    num_bytes: int


def _unindexed_fragments(search: Search, number: int, part: Part, covered: pyroaring.BitMap) -> Iterator[_Fragment]:
    column = search.query.column
    width = column.dimension * np.dtype(column.dtype).itemsize
    for message in part.manifest.fragments.messages:
        if message.id not in covered:
            yield _Fragment(number, part.key, message.id, width * (message.physical_rows or _UNKNOWN_ROWS))


def _groups(fragments: Sequence[_Fragment], group_bytes: int) -> list[list[_Fragment]]:
    """Neighbours together, as long as they have `group_bytes` at most."""
    groups: list[list[_Fragment]] = []
    left = 0
    for fragment in fragments:
        if not groups or left < fragment.num_bytes:
            groups.append([])
            left = group_bytes
        groups[-1].append(fragment)
        left -= fragment.num_bytes
    return groups


def _piece(fragments: Sequence[_Fragment]) -> Piece:
    of_parts: dict[int, PartPiece] = {}
    for fragment in fragments:
        empty = PartPiece(fragment.part_number, fragment.part_key, pyroaring.BitMap())
        of_parts.setdefault(fragment.part_number, empty).fragment_ids.add(fragment.fragment_id)
    return tuple(of_parts.values())
