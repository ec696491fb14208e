"""Which fragments of a scan, and which of their rows, can be part of the answer, by metadata and zone maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyroaring

from lance_spark.errors import LanceError
from lance_spark.expr.nodes import Expr, referenced_columns
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.schema.field import Field
from lance_spark.spark.index_answers import IndexAnswers
from lance_spark.storage.local import LocalStore
from lance_spark.table.reading.limit import physical_offset
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import FRAGMENT_ID, ROW_ADDRESS
from lance_spark.table.reading.zone_maps import has_clustered_values, matching_rows, zone_map_of, zoned_fields
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT, OFFSET_BITS
from lance_spark.table.source import Split

LOCATION_COLUMNS = (ROW_ADDRESS, FRAGMENT_ID)
"""System columns whose values choose fragments."""

_ZONE_MAP_VALUES = 16 << 20
_ZONE_MAP_VALUES_OF_REMOTE = 2 << 20
"""Values whose zone maps one plan uses at most, computed before or not: the same query always has the same plan."""

_ZONE_MAP_FRAGMENTS = 256
"""To open more while planning takes longer than it saves."""

_NO_ROWS = pyroaring.BitMap()

RowRanges = tuple[tuple[int, int], ...]
"""Physical rows [start, stop), ascending."""


@dataclass(frozen=True, slots=True)
class SplitScan:
    """A split with the scan that is bound to it."""

    split: Split
    scan: Scan


@dataclass(frozen=True, slots=True)
class SelectedFragment:
    """A fragment that can have rows of the answer.

    Attributes:
        split: its place among the splits of the scan.
        ranges: the rows to read; None for all.
        candidates: the rows that indexes have found, one or more, deleted ones possibly among them; None if no index
            has answered.
    """

    split: int
    fragment: DataFragment
    ranges: RowRanges | None = None
    candidates: pyroaring.BitMap | None = None

    @property
    def num_rows(self) -> int | None:
        """How many rows it can have for the answer at most; None if that is not known."""
        if self.candidates is not None:
            return len(self.candidates)
        num_rows = self.fragment.num_rows
        if num_rows is None or self.ranges is None:
            return num_rows
        return min(num_rows, sum(stop - start for start, stop in self.ranges))


@dataclass(frozen=True, slots=True)
class RowChoice:
    """What chooses rows, besides the filters of the scans.

    Attributes:
        limit: how many are enough.
        offset: how many to leave out first; only without filters, and where the count of each fragment is known.
        uses_zone_maps: whether bounds of the filters' columns may be computed.
        answers: what indexes say of the filters.
    """

    limit: int | None = None
    offset: int = 0
    uses_zone_maps: bool = False
    answers: IndexAnswers = field(default_factory=IndexAnswers)

    def of(self, splits: Sequence[SplitScan]) -> list[SelectedFragment]:
        """The fragments to read, in the order of the table."""
        if self.offset:
            return _after_offset(splits, self.offset)
        if any(item.scan.filter is not None for item in splits):
            return _matching(splits, self.uses_zone_maps, self.answers)
        if self.limit is not None:
            return _first_rows(splits, self.limit)
        return list(_all(splits))


def _all(splits: Sequence[SplitScan]) -> Iterator[SelectedFragment]:
    for place, item in enumerate(splits):
        for fragment in item.split.manifest.fragments:
            yield SelectedFragment(place, fragment)


def _after_offset(splits: Sequence[SplitScan], offset: int) -> list[SelectedFragment]:
    counts = (count for item in splits for count in item.split.manifest.fragments.row_counts())
    left = offset
    found: list[SelectedFragment] = []
    for selected, count in zip(_all(splits), counts, strict=True):
        assert count is not None, "an offset is taken only where all counts are known"
        if found or not left:
            found.append(selected)
        elif count <= left:
            left -= count
        else:
            start = physical_offset(splits[selected.split].scan, selected.fragment, left)
            rows = selected.fragment.physical_rows or count
            found.append(SelectedFragment(selected.split, selected.fragment, ((start, rows),)))
    return found


def _first_rows(splits: Sequence[SplitScan], limit: int) -> list[SelectedFragment]:
    counts = (count for item in splits for count in item.split.manifest.fragments.row_counts())
    found: list[SelectedFragment] = []
    left, is_exact = limit, True
    for selected, count in zip(_all(splits), counts, strict=True):
        if left <= 0:
            break
        is_exact = is_exact and count is not None
        ends_here = is_exact and selected.fragment.deletion_file is None
        found.append(SelectedFragment(selected.split, selected.fragment, ((0, left),)) if ends_here else selected)
        left -= count or 0
    # Only of the last one less than all rows is enough.
    return [SelectedFragment(item.split, item.fragment) for item in found[:-1]] + found[-1:]


def _matching(splits: Sequence[SplitScan], uses_zone_maps: bool, answers: IndexAnswers) -> list[SelectedFragment]:
    condition = _filter_of(splits[0].scan)
    by_location = any(path[0].lower() in LOCATION_COLUMNS for path in referenced_columns(condition))
    if not (by_location or may_match(condition, {}, time_zone=splits[0].scan.time_zone)):
        return []
    found = list(_all(splits))
    if by_location:
        found = [item for item in found if _location_may_match(item, splits[item.split].scan)]
    if answers.know_rows:
        answered = (replace(item, candidates=answers.candidates(item.split, item.fragment)) for item in found)
        found = [item for item in answered if item.candidates != _NO_ROWS]
    if not uses_zone_maps:
        return found
    unanswered = [item for item in found if item.candidates is None]
    narrowed = {(item.split, item.fragment.id): item for item in _narrowed_by_zones(unanswered, splits)}
    kept = (item if item.candidates else narrowed.get((item.split, item.fragment.id)) for item in found)
    return [item for item in kept if item is not None]


def _filter_of(scan: Scan) -> Expr:
    """The filter of a split's scan. Those of all splits have the same columns; only rows of text searches differ."""
    assert scan.filter is not None, "either all scans of a plan have a filter, or none"
    return scan.filter


def _location_may_match(selected: SelectedFragment, scan: Scan) -> bool:
    """Whether the filter can be true in a fragment, by its id."""
    hidden = scan.schema.names()
    statistics: dict[tuple[str, ...], ColumnStatistics] = {
        (name,): bounds for name, bounds in _location_statistics(selected.fragment).items() if name not in hidden
    }
    return may_match(_filter_of(scan), statistics, time_zone=scan.time_zone)


def _location_statistics(fragment: DataFragment) -> dict[str, ColumnStatistics]:
    """The bounds of the system columns that a fragment's id decides."""
    number = pa.scalar(fragment.id, pa.uint64())
    first = fragment.id << OFFSET_BITS
    last = first + (fragment.physical_rows or MAX_ROWS_PER_FRAGMENT) - 1
    return {
        FRAGMENT_ID: ColumnStatistics(number, number, null_count=0),
        ROW_ADDRESS: ColumnStatistics(pa.scalar(first, pa.uint64()), pa.scalar(last, pa.uint64()), null_count=0),
    }


def _narrowed_by_zones(selected: list[SelectedFragment], splits: Sequence[SplitScan]) -> list[SelectedFragment]:
    fields = _clustered_fields(selected, splits) if 0 < len(selected) <= _ZONE_MAP_FRAGMENTS else {}
    if not fields:
        return selected
    is_local = isinstance(splits[0].scan.bases.root, LocalStore)
    budget = _ZONE_MAP_VALUES if is_local else _ZONE_MAP_VALUES_OF_REMOTE
    narrowed = []
    for item in selected:
        budget -= (item.fragment.physical_rows or 0) * len(fields)
        try:
            ranges = _zone_ranges(item.fragment, splits[item.split].scan, fields) if budget >= 0 else None
        except LanceError:
            ranges = None  # The task that reads the file reports it.
        if ranges != ():
            narrowed.append(SelectedFragment(item.split, item.fragment, ranges))
    return narrowed


def _clustered_fields(selected: list[SelectedFragment], splits: Sequence[SplitScan]) -> dict[tuple[str, ...], Field]:
    """The columns of the filter whose zone maps are worth computing."""
    fragments = [(item.fragment, splits[item.split].scan.bases) for item in selected]
    try:
        fields = zoned_fields(_filter_of(splits[0].scan), splits[0].scan.schema)
        return {path: field for path, field in fields.items() if has_clustered_values(fragments, field)}
    except LanceError:
        return {}  # The task that reads the file reports it.


def _zone_ranges(fragment: DataFragment, scan: Scan, fields: Mapping[tuple[str, ...], Field]) -> RowRanges | None:
    """The rows that the filter can match; None if zone maps say nothing."""
    found = {path: zone_map_of(fragment, field, scan.bases) for path, field in fields.items()}
    zones = {path: item for path, item in found.items() if item is not None}
    if not zones or fragment.physical_rows is None:
        return None
    return tuple(matching_rows(_filter_of(scan), zones, fragment.physical_rows, time_zone=scan.time_zone))
