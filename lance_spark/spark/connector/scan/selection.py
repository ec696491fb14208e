"""Which fragments of a scan, and which of their rows, can be part of the answer, by metadata and indexes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr, referenced_columns
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.spark.index_answers import IndexAnswers
from lance_spark.table.reading.limit import physical_offset
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import ScannedFragment, estimated_selectivity
from lance_spark.table.reading.system_columns import FRAGMENT_ID, ROW_ADDRESS
from lance_spark.table.rows.fragment import FragmentList
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT, OFFSET_BITS
from lance_spark.table.source import Split

LOCATION_COLUMNS = (ROW_ADDRESS, FRAGMENT_ID)
"""System columns whose values choose fragments."""

_BRANCHES = 16
"""The most parts into which fragments are divided where a filter can be true by their ids, until each is alone."""


@dataclass(frozen=True, slots=True)
class SplitScan:
    """A split with the scan that is bound to it."""

    split: Split
    scan: Scan


@dataclass(frozen=True, slots=True)
class SelectedFragments:
    """Neighbouring fragments of a split that can have rows of the answer, or one of which only some rows can.

    Attributes:
        split: its place among the splits of the scan.
        fragments: all of the split.
        start, stop: the places [start, stop) of the selected ones.
        rows: the physical rows [start, stop) to read of one fragment; None for all.
        candidates: the rows of one fragment that indexes have found, one or more, deleted ones possibly among them;
            None if no index has answered.
    """

    split: int
    fragments: FragmentList
    start: int
    stop: int
    rows: tuple[int, int] | None = None
    candidates: pyroaring.BitMap | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def is_part(self) -> bool:
        """Whether some rows of a fragment are selected, and not all."""
        return self.rows is not None or self.candidates is not None

    @property
    def num_rows(self) -> int | None:
        """The most rows that they can have for the answer; None if that is not known."""
        if self.candidates is not None:
            return len(self.candidates)
        counts = self.fragments.row_counts()[self.start : self.stop]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return None
        most = sum(known)
        return most if self.rows is None else min(most, self.rows[1] - self.rows[0])

    @property
    def num_files(self) -> int:
        """The number of their data files."""
        return self.fragments.sizes.num_files(self.start, self.stop)

    def between(self, start: int, stop: int) -> Iterator[SelectedFragments]:
        """The fragments at the places [start, stop), if there are any."""
        if start < stop:
            yield replace(self, start=start, stop=stop)


class ScannedFragments(Sequence[ScannedFragment]):
    """Each of the selected fragments with the scan of its split, parsed when it is asked for."""

    def __init__(self, selected: Sequence[SelectedFragments], splits: Sequence[SplitScan]) -> None:
        self._selected = selected
        self._scans = [split.scan for split in splits]
        self._ends = list(accumulate(map(len, selected)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> ScannedFragment: ...

    @overload
    def __getitem__(self, index: slice) -> list[ScannedFragment]: ...

    def __getitem__(self, index: int | slice) -> ScannedFragment | list[ScannedFragment]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        run = bisect_right(self._ends, number)
        item = self._selected[run]
        return self._scans[item.split], item.fragments[item.stop - (self._ends[run] - number)]


def most_rows(selected: Sequence[SelectedFragments]) -> int | None:
    """Upper bound of the rows that the selected fragments have for the answer; None if one count is not known."""
    known = [rows for item in selected if (rows := item.num_rows) is not None]
    return sum(known) if len(known) == len(selected) else None


def sampled_selectivity(selected: Sequence[SelectedFragments], splits: Sequence[SplitScan]) -> float:
    """About which share, in [0, 1], of the rows of the selected fragments the filter of the scans keeps: of those that
    indexes have found all.

    Raises:
        CorruptFileError: a file contradicts the format.
    """
    sampled = [item for item in selected if item.candidates is None]
    num_rows, num_sampled = most_rows(selected), most_rows(sampled)
    if len(sampled) < len(selected) and not (num_rows and num_sampled):
        return 1.0
    try:
        share = estimated_selectivity(ScannedFragments(sampled, splits))
        return share if not (num_rows and num_sampled) else (num_rows - num_sampled + share * num_sampled) / num_rows
    except InvalidInputError:
        # The sample has deleted rows too. If a row that is not deleted fails, a task reports it.
        return 1.0


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Conditions that choose rows, besides the filters of the scans.

    Attributes:
        limit: how many are enough.
        offset: how many to leave out first; only without filters, and where the count of each fragment is known.
        answers: what indexes say of the filters.
    """

    limit: int | None = None
    offset: int = 0
    answers: IndexAnswers = field(default_factory=IndexAnswers)

    def of(self, splits: Sequence[SplitScan]) -> list[SelectedFragments]:
        """The fragments to read, in the order of the table."""
        if self.offset:
            return _after_offset(splits, self.offset)
        if any(item.scan.filter is not None for item in splits):
            return _matching(splits, self.answers)
        if self.limit is not None:
            return _first_rows(splits, self.limit)
        return all_fragments(splits)


def all_fragments(splits: Sequence[SplitScan]) -> list[SelectedFragments]:
    """All fragments of the splits."""
    lists = [item.split.manifest.fragments for item in splits]
    return [SelectedFragments(place, found, 0, len(found)) for place, found in enumerate(lists) if len(found)]


def _after_offset(splits: Sequence[SplitScan], offset: int) -> list[SelectedFragments]:
    left = offset
    found: list[SelectedFragments] = []
    for item in all_fragments(splits):
        counts, place = item.fragments.row_counts(), item.start
        for count in counts:
            assert count is not None, "an offset is taken only where all counts are known"
            if not left or count > left:
                break
            left -= count
            place += 1
        if left and place < item.stop:
            fragment = item.fragments[place]
            start = physical_offset(splits[item.split].scan, fragment, left)
            stop = fragment.physical_rows or counts[place] or 0
            found.append(replace(item, start=place, stop=place + 1, rows=(start, stop)))
            left, place = 0, place + 1
        if place < item.stop:
            found.append(replace(item, start=place))
    return found


def _first_rows(splits: Sequence[SplitScan], limit: int) -> list[SelectedFragments]:
    found: list[SelectedFragments] = []
    left, wanted, is_exact = limit, limit, True
    for item in all_fragments(splits):
        stop = item.start
        for count in item.fragments.row_counts():
            if left <= 0:
                break
            is_exact = is_exact and count is not None
            wanted = left
            left -= count or 0
            stop += 1
        if stop > item.start:
            found.append(replace(item, stop=stop))
    if not (found and is_exact and found[-1].fragments[found[-1].stop - 1].deletion_file is None):
        return found
    # Of the last one less than all rows is enough.
    last = found.pop()
    if len(last) > 1:
        found.append(replace(last, stop=last.stop - 1))
    return [*found, replace(last, start=last.stop - 1, rows=(0, wanted))]


def _matching(splits: Sequence[SplitScan], answers: IndexAnswers) -> list[SelectedFragments]:
    condition = _filter_of(splits[0].scan)
    by_location = any(path[0].lower() in LOCATION_COLUMNS for path in referenced_columns(condition))
    if not (by_location or may_match(condition, {}, time_zone=splits[0].scan.time_zone)):
        return []
    found = all_fragments(splits)
    if by_location:
        found = [kept for item in found for kept in _at_locations(item, splits[item.split].scan)]
    if answers.know_rows:
        found = [kept for item in found for kept in _answered(item, answers)]
    return found


def _at_locations(selected: SelectedFragments, scan: Scan) -> Iterator[SelectedFragments]:
    """The fragments in which the filter can be true, by their ids."""
    start = stop = selected.start
    for place in _matching_places(selected.start, selected.stop, _Locations.of(selected.fragments), scan):
        if place > stop:
            yield from selected.between(start, stop)
            start = place
        stop = place + 1
    yield from selected.between(start, stop)


def _matching_places(start: int, stop: int, locations: _Locations, scan: Scan) -> Iterator[int]:
    """Places in [start, stop) in whose fragments the filter can be true; many fragments are checked together first."""
    if not locations.may_match(start, stop, scan):
        return
    if stop - start == 1:
        yield start
        return
    step = 1
    while step * _BRANCHES < stop - start:
        step *= _BRANCHES
    for first in range(start, stop, step):
        yield from _matching_places(first, min(first + step, stop), locations, scan)


def _answered(selected: SelectedFragments, answers: IndexAnswers) -> Iterator[SelectedFragments]:
    """The fragments with the rows that indexes have found, without those in which they have found none."""
    start = selected.start
    for place in range(selected.start, selected.stop):
        message = selected.fragments.messages[place]
        candidates = answers.candidates(selected.split, message.id, message.physical_rows)
        if candidates is not None:
            yield from selected.between(start, place)
            if candidates:
                yield replace(selected, start=place, stop=place + 1, candidates=candidates)
            start = place + 1
    yield from selected.between(start, selected.stop)


def _filter_of(scan: Scan) -> Expr:
    """The filter of a split's scan. Those of all splits have the same columns; only rows of text searches differ."""
    assert scan.filter is not None, "either all scans of a plan have a filter, or none"
    return scan.filter


@dataclass(frozen=True, slots=True)
class _Locations:
    """Bounds of the system columns of rows by the ids of their fragments.

    Attributes:
        ids: uint64[n], of each fragment.
        first_rows, last_rows: uint64[n], the addresses of its first and its last row.
    """

    ids: npt.NDArray[np.uint64]
    first_rows: npt.NDArray[np.uint64]
    last_rows: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, fragments: FragmentList) -> _Locations:
        ids = np.array([message.id for message in fragments.messages], np.uint64)
        rows = fragments.sizes.physical_rows
        first = ids << np.uint64(OFFSET_BITS)
        return cls(ids, first, first + (np.where(rows, rows, MAX_ROWS_PER_FRAGMENT) - 1).astype(np.uint64))

    def may_match(self, start: int, stop: int, scan: Scan) -> bool:
        """Whether the filter of a scan can be true in a fragment at one of the places [start, stop)."""
        bounds = {
            FRAGMENT_ID: _bounds(self.ids, self.ids, start, stop),
            ROW_ADDRESS: _bounds(self.first_rows, self.last_rows, start, stop),
        }
        hidden = scan.schema.names()
        statistics: dict[tuple[str, ...], ColumnStatistics] = {
            (name,): ColumnStatistics(low, high, null_count=0)
            for name, (low, high) in bounds.items()
            if name not in hidden
        }
        return may_match(_filter_of(scan), statistics, time_zone=scan.time_zone)


def _bounds(
    low: npt.NDArray[np.uint64], high: npt.NDArray[np.uint64], start: int, stop: int
) -> tuple[pa.Scalar, pa.Scalar]:
    """The smallest of `low` and the largest of `high` at the places [start, stop)."""
    if stop - start > 1:
        low, high, start = low[start:stop].min(keepdims=True), high[start:stop].max(keepdims=True), 0
    return pa.scalar(int(low[start]), pa.uint64()), pa.scalar(int(high[start]), pa.uint64())
