"""Fragments of a table, or of several partitions of one, in pieces that tasks work on one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyroaring


@dataclass(frozen=True, slots=True)
class PartPiece:
    """Fragments of a part.

    Attributes:
        key: of the partition; None for a table without partitions.
        fragment_ids: the fragments.
    """

    key: str | None
    fragment_ids: pyroaring.BitMap


Piece = tuple[PartPiece, ...]
"""What is worked on together."""


@dataclass(frozen=True, slots=True)
class PartFragment:
    """A fragment of a part, and the bytes of it that have to be read."""

    part_key: str | None
    fragment_id: int
    num_bytes: int


def pieces_of(fragments: Iterable[PartFragment], piece_bytes: int) -> tuple[Piece, ...]:
    """Neighbours together, as long as they have `piece_bytes` at most."""
    groups: list[list[PartFragment]] = []
    left = 0
    for fragment in fragments:
        if not groups or left < fragment.num_bytes:
            groups.append([])
            left = piece_bytes
        groups[-1].append(fragment)
        left -= fragment.num_bytes
    return tuple(map(_piece, groups))


def _piece(fragments: Iterable[PartFragment]) -> Piece:
    of_parts: dict[str | None, PartPiece] = {}
    for fragment in fragments:
        empty = PartPiece(fragment.part_key, pyroaring.BitMap())
        of_parts.setdefault(fragment.part_key, empty).fragment_ids.add(fragment.fragment_id)
    return tuple(of_parts.values())
