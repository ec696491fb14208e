"""From the selected fragments to the work of tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lance_spark.expr.nodes import Expr, InArray
from lance_spark.spark.connector.channel.tasks import SplitWork
from lance_spark.spark.connector.scan.selection import SelectedFragment, SplitScan
from lance_spark.spark.partitions import (
    FragmentSlice,
    ProjectedSizes,
    SizedFragment,
    estimated_bytes,
    packed_neighbours,
    plan_partitions,
    sized,
)
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.search.text_filters import for_fragments


class Piece(NamedTuple):
    """Rows of a fragment to read; `split` is its place among the splits of the scan."""

    split: int
    rows: SizedFragment


@dataclass(frozen=True, slots=True)
class SplitPart:
    """What one task reads of one split.

    Attributes:
        split: its place among the splits of the scan.
        size_bytes: about how much is read.
    """

    split: int
    slices: tuple[FragmentSlice, ...]
    size_bytes: int


def pieces_of(
    selected: Sequence[SelectedFragment], splits: Sequence[SplitScan], sizes: ProjectedSizes
) -> Iterator[Piece]:
    """The rows of each selected fragment, one piece a range."""
    for item in selected:
        split, scan = splits[item.split].split, splits[item.split].scan
        rows = sized(split.manifest.fragments, item.fragment, scan.bases, sizes)
        if item.candidates is not None:
            yield Piece(item.split, rows.only(item.candidates))
        elif item.ranges is None:
            yield Piece(item.split, rows)
        else:
            yield from (Piece(item.split, rows.part(start, stop)) for start, stop in item.ranges)


def total_bytes(pieces: Sequence[Piece]) -> int:
    """About how much a read of all pieces touches."""
    return sum(estimated_bytes(piece.rows) for piece in pieces)


def split_parts(pieces: Sequence[Piece], target_bytes: int) -> list[SplitPart]:
    """Parts of about `target_bytes` at most, each of one split."""
    by_split: dict[int, list[SizedFragment]] = {}
    for piece in pieces:
        by_split.setdefault(piece.split, []).append(piece.rows)
    return [
        SplitPart(split, part.slices, part.size_bytes)
        for split, rows in by_split.items()
        for part in plan_partitions(rows, target_bytes)
    ]


def restricted(parts: Sequence[SplitPart], fragments: Collection[tuple[int, bytes]]) -> list[SplitPart]:
    """The parts without fragments other than `fragments` (place of the split, message), none added or split again."""
    kept = (
        replace(part, slices=tuple(item for item in part.slices if (part.split, item.fragment) in fragments))
        for part in parts
    )
    return [part for part in kept if part.slices]


def coalesced(parts: Sequence[SplitPart], target_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of neighbours that make up about `target_bytes` together."""
    return packed_neighbours([part.size_bytes for part in parts], target_bytes)


def work_of(parts: Sequence[SplitPart], splits: Sequence[SplitScan]) -> tuple[SplitWork, ...]:
    """`parts` as a task gets them."""
    return tuple(SplitWork.of(splits[part.split].split, part.slices, _own_filter(part, splits)) for part in parts)


def _own_filter(part: SplitPart, splits: Sequence[SplitScan]) -> Expr | None:
    """The filter of a part where it is not that of all tasks: where it has rows that a text search has found."""
    condition = splits[part.split].scan.filter
    if condition is None or not any(isinstance(node, InArray) for node in condition.walk()):
        return None
    return for_fragments(condition, {DataFragment.from_bytes(item.fragment).id for item in part.slices})
