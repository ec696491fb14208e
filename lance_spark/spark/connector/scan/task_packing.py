"""From the selected fragments to the work of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from lance_spark.expr.nodes import Expr, InArray
from lance_spark.spark.connector.channel.tasks import SplitWork
from lance_spark.spark.connector.scan.selection import SelectedFragments, SplitScan
from lance_spark.spark.partitions import (
    SizedFragment,
    SizedRows,
    SizedSplit,
    packed_neighbours,
    plan_partitions,
)
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.table.rows.fragment import FragmentList
from lance_spark.table.search.text_filters import for_fragments


@dataclass(frozen=True, slots=True)
class SplitPart:
    """Rows of one split: all that are read of it, or what one task reads.

    Attributes:
        split: its place among the splits of the scan.
        size_bytes: about how much is read.
    """

    split: int
    rows: SizedRows
    size_bytes: int


def pieces_of(
    selected: Sequence[SelectedFragments], splits: Sequence[SplitScan], sizes: ProjectedSizes
) -> Iterator[SplitPart]:
    """The rows of all selected fragments, split by split."""
    for split, items in groupby(selected, lambda item: item.split):
        fragments, bases = splits[split].split.manifest.fragments, splits[split].scan.bases
        rows = SizedRows.joined(list(_rows_of(SizedSplit(fragments, bases, sizes), fragments, items)))
        yield SplitPart(split, rows, rows.total_bytes)


def _rows_of(sized: SizedSplit, fragments: FragmentList, selected: Iterable[SelectedFragments]) -> Iterator[SizedRows]:
    """The rows of fragments of one split; those of which only some rows are read are made columns together."""
    for in_part, items in groupby(selected, lambda item: item.is_part):
        if in_part:
            yield SizedRows.of(fragments, [_part_of_one(sized, item) for item in items])
        else:
            yield from (sized.rows(item.start, item.stop) for item in items)


def _part_of_one(sized: SizedSplit, selected: SelectedFragments) -> SizedFragment:
    fragment = sized.fragment(selected.start)
    if selected.candidates is not None:
        return fragment.only(selected.candidates)
    assert selected.rows is not None, "some rows of the fragment are selected, and not all"
    return fragment.part(*selected.rows)


def planned_bytes(pieces: Sequence[SplitPart]) -> int | None:
    """The bytes of the files that a read of `pieces` touches; None if a manifest lacks the size of a file."""
    is_known = all(item.rows.is_size_known for item in pieces)
    return sum(item.size_bytes for item in pieces) if is_known else None


def total_bytes(pieces: Sequence[SplitPart]) -> int:
    """About how much a read of all pieces touches."""
    return sum(item.size_bytes for item in pieces)


def split_parts(pieces: Sequence[SplitPart], target_bytes: int) -> list[SplitPart]:
    """Parts of about `target_bytes` at most, each of one split."""
    return [
        SplitPart(item.split, rows, rows.total_bytes)
        for item in pieces
        for rows in plan_partitions(item.rows, target_bytes)
    ]


def restricted(parts: Sequence[SplitPart], pieces: Sequence[SplitPart]) -> list[SplitPart]:
    """The parts without fragments that have none of `pieces`, none added or split again."""
    places = {item.split: item.rows.places for item in pieces}
    kept = (replace(part, rows=part.rows.of_fragments(places[part.split])) for part in parts if part.split in places)
    return [part for part in kept if len(part.rows)]


def coalesced(parts: Sequence[SplitPart], target_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of neighbours that make up about `target_bytes` together."""
    return packed_neighbours([part.size_bytes for part in parts], target_bytes)


def work_of(parts: Sequence[SplitPart], splits: Sequence[SplitScan]) -> tuple[SplitWork, ...]:
    """`parts` as a task gets them."""
    return tuple(
        SplitWork.of(splits[part.split].split, part.rows.slices(), _own_filter(part, splits)) for part in parts
    )


def _own_filter(part: SplitPart, splits: Sequence[SplitScan]) -> Expr | None:
    """The filter of a part if it differs from the tasks' common one: if it names rows of a text search."""
    condition = splits[part.split].scan.filter
    if condition is None or not any(isinstance(node, InArray) for node in condition.walk()):
        return None
    messages = part.rows.fragments.messages
    return for_fragments(condition, {messages[place].id for place in part.rows.places.tolist()})
