"""Fragments to Spark's input partitions: small ones share a partition, large ones are split by rows.

A partition carries only its fragments, as `lance.table.DataFragment` bytes; what all partitions share (schema, bases,
credentials) travels once, with the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from lance_spark.schema.columns import column_fields
from lance_spark.schema.field import LanceSchema
from lance_spark.table.fragment import DataFragment
from lance_spark.table.fragment_reader import FragmentReader
from lance_spark.table.scan import Scan

UNKNOWN_BYTES_PER_ROW = 64
"""Assumed for files whose size the manifest does not tell (those of old writers)."""


@dataclass(frozen=True, slots=True)
class SizedFragment:
    """A fragment as the planner sees it: `size_bytes` covers the files that the read touches, None if not known."""

    fragment: bytes
    physical_rows: int
    size_bytes: int | None


def sized(fragment: DataFragment, scan: Scan) -> SizedFragment:
    """`fragment` as the planner of `scan` sees it."""
    rows = fragment.physical_rows
    if rows is None:
        rows = FragmentReader(fragment, scan.bases).num_rows
    return SizedFragment(fragment.to_bytes(), rows, projected_bytes(fragment, scan.projection))


def projected_bytes(fragment: DataFragment, projection: LanceSchema) -> int | None:
    """Bytes that a read of the columns of `projection` touches: the share of a file's columns that is read."""
    total = 0.0
    for file in fragment.files:
        if file.size_bytes is None:
            return None
        owners = {field.id for field in column_fields(projection.fields, file.version)}
        total += file.size_bytes * len(owners.intersection(file.fields)) / max(1, len(file.fields))
    return int(total)


@dataclass(frozen=True, slots=True)
class FragmentSlice:
    """Physical rows [start, stop) of a fragment; deleted rows count."""

    fragment: bytes
    start: int
    stop: int


class LanceInputPartition(InputPartition):
    """The work of one task."""

    def __init__(self, slices: tuple[FragmentSlice, ...]) -> None:
        super().__init__(None)
        self.slices = slices


def estimated_bytes(fragment: SizedFragment) -> int:
    """What a read of the fragment touches, about."""
    known = fragment.size_bytes
    return known if known is not None else fragment.physical_rows * UNKNOWN_BYTES_PER_ROW


def plan_partitions(
    fragments: Iterable[SizedFragment], target_bytes: int, first_row: int = 0
) -> list[LanceInputPartition]:
    """Partitions of about `target_bytes` that hold every physical row of `fragments` from `first_row` of the first of
    them on once, in order.
    """
    partitions: list[LanceInputPartition] = []
    pending: list[FragmentSlice] = []
    pending_bytes = 0
    for piece, size in _pieces(fragments, target_bytes, first_row):
        # An eighth more is no matter; a task for a small rest would be the last one to end.
        if pending and pending_bytes + size > target_bytes + target_bytes // 8:
            partitions.append(LanceInputPartition(tuple(pending)))
            pending, pending_bytes = [], 0
        pending.append(piece)
        pending_bytes += size
    if pending:
        partitions.append(LanceInputPartition(tuple(pending)))
    return partitions


def _pieces(
    fragments: Iterable[SizedFragment], target_bytes: int, first_row: int
) -> Iterator[tuple[FragmentSlice, int]]:
    for fragment in fragments:
        rows = fragment.physical_rows
        size = estimated_bytes(fragment)
        count = max(1, min(rows, round(size / target_bytes)))
        bounds = [rows * index // count for index in range(count + 1)]
        for start, stop in pairwise(bounds):
            if stop > first_row or not first_row:
                yield FragmentSlice(fragment.fragment, max(start, first_row), stop), size // count
        first_row = 0
