"""A search that is divided into pieces, which are searched one by one, in any order and in any process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyroaring

from lance_spark.errors import LanceError
from lance_spark.table.reading.pieces import PartFragment, PartPiece, Piece, pieces_of
from lance_spark.table.vector_search.search import Part, Search
from lance_spark.table.vector_search.segments import SegmentPart, chosen_segments

_QUERIES_OF_A_PASS = 128
"""This many queries count as one pass over the vectors."""

_UNKNOWN_ROWS = 1 << 20
"""Assumed of a fragment that does not say how many rows it has, as old writers left them."""


@dataclass(frozen=True, slots=True)
class DividedSearch:
    """The pieces of a search; each fragment is in one at most, in none if it does not have to be searched.

    Attributes:
        segments: one piece for each segment of an index.
        unindexed: the fragments that no index covers.
        num_bytes: of the vectors in `unindexed`, once for every `_QUERIES_OF_A_PASS` queries.
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
    unindexed: list[PartFragment] = []
    for part in parts:
        covered = pyroaring.BitMap()
        for _, ids in _chosen(search, part):
            if ids - covered:
                segments.append((PartPiece(part.key, ids - covered),))
            covered |= ids
        if not (search.index.fast_search and covered):
            unindexed += _unindexed_fragments(search, part, covered)
    pieces = pieces_of(unindexed, piece_bytes)
    times = -(-len(search.query.queries) // _QUERIES_OF_A_PASS)
    num_bytes = times * sum(fragment.num_bytes for fragment in unindexed)
    return DividedSearch(tuple(segments), pieces, num_bytes)


def of_piece(part: Part, piece: PartPiece) -> Part:
    """`part`, of which only the fragments of a piece are searched."""
    return replace(part, fragment_ids=piece.fragment_ids)


def searched_with(search: Search, parts: Sequence[Part]) -> str:
    """Description of each query's work, for plans that are made before there are queries: the indexes with all of their
    partitions, and the number of rows that no index covers.
    """
    names: dict[str, None] = {}
    partitions = unindexed = 0
    for part in parts:
        covered = pyroaring.BitMap()
        for segment, ids in _chosen(search, part):
            try:
                partitions += len(segment.opened().model.centroids)
            except LanceError:
                continue  # A search warns, and compares the rows.
            names[segment.name] = None
            covered |= ids
        if not (search.index.fast_search and covered):
            left = (item for item in part.manifest.fragments.messages if item.id not in covered)
            unindexed += sum(item.physical_rows for item in left)
    return f"index={','.join(names) or 'none'} partitions={partitions} unindexed={unindexed}"


def _chosen(search: Search, part: Part) -> list[SegmentPart]:
    scan = part.scan([search.query.column.name], search.searched_filter)
    return chosen_segments(scan, part.manifest, search.query, use_index=search.index.answers(search.query))


def _unindexed_fragments(search: Search, part: Part, covered: pyroaring.BitMap) -> Iterator[PartFragment]:
    column = search.query.column
    width = column.dimension * np.dtype(column.dtype).itemsize
    for message in part.manifest.fragments.messages:
        if message.id not in covered:
            yield PartFragment(part.key, message.id, width * (message.physical_rows or _UNKNOWN_ROWS))
