"""BTREE: all rows in the order of their values, nulls first, in pages of equal size.

``page_data.lance`` has the columns `values` and `ids`, page after page. ``page_lookup.lance`` has one row for each page
with its smallest and largest value and its number of nulls; a page that starts with nulls has no smallest value.
Floats are in IEEE 754 total order: -NaN, -inf ... -0.0, 0.0 ... inf, NaN.

A search reads the lookup file, and those pages whose bounds do not rule the predicate out. The predicate is evaluated
on their values, so the answer is exact for every predicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.prune import ColumnStatistics
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.bounds import Bounds, key_numbers, matching_bounds, whole_numbers
from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.row_set import RowSet
from lance_spark.index.shapes import is_range_condition
from lance_spark.layouts.base import RowRanges

BTREE_FILE = "page_data.lance"
_DATA = BTREE_FILE
_LOOKUP = "page_lookup.lance"
_DEFAULT_PAGE_ROWS = 4096

_FEW_PAGES = 16
"""So few pages are read without asking whether that is worth it."""

_SELECTIVE_SHARE = 1 / 4
"""A larger share of the pages is not read: it costs about as much as reading the column."""

_ENTRY_BYTES = 16
_MAX_KEPT_BYTES = 64 << 20
"""Lists of keys may read all pages of an index that is not larger."""

_SELECTIVE_SHARE_OF_KEYS = 1 / 2
"""The same for lists of keys, of which each has few rows in its page."""

_BLOCK_ROWS = 1024
"""The approximate number of values that are decoded to read one value of a number column."""

_SPREAD_SHARE = 1 / 2
"""If more of the blocks have matching rows, reading the column is cheaper."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The pages: `lows` and `highs` are their bounds, `null_counts` int64[n] their nulls."""

    page_rows: int
    num_rows: int
    lows: pa.Array
    highs: pa.Array
    null_counts: Int64Array

    @property
    def num_pages(self) -> int:
        return len(self.null_counts)

    @property
    def num_bytes(self) -> int:
        return int(self.lows.nbytes + self.highs.nbytes + self.null_counts.nbytes)

    @property
    def bounds(self) -> Bounds:
        """Those of each page, unless values can be NaN: the total order puts some before all numbers."""
        num_rows = np.diff(np.minimum(np.arange(self.num_pages + 1) * self.page_rows, self.num_rows))
        return Bounds(self.lows, self.highs, self.null_counts < num_rows)

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        """The rows [start, stop) of the pages [first, last)."""
        return first * self.page_rows, min(last * self.page_rows, self.num_rows)

    def statistics(self, first: int, last: int) -> ColumnStatistics:
        """What is known of the values of the pages [first, last)."""
        start, stop = self.rows_of(first, last)
        low, high = self.lows[first], self.highs[last - 1]
        # In total order no NaN lies between two numbers.
        without_nan = _is_number(low) and _is_number(high)
        return ColumnStatistics(
            min=low if low.is_valid else None,
            max=high if high.is_valid else None,
            null_count=int(self.null_counts[first:last].sum()),
            nan_count=0 if without_nan else None,
            num_rows=stop - start,
        )


def _is_number(bound: pa.Scalar) -> bool:
    if not bound.is_valid:
        return False
    return not pa.types.is_floating(bound.type) or not np.isnan(bound.as_py())


class BTreeIndex(ScalarIndex):
    """A segment of a BTREE index."""

    type_name = "BTREE"
    type_url = "/lance.table.BTreeIndexDetails"
    max_version = 1
    loses_moved_rows = True

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        return version < 1

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        return Fit.EXACT if is_range_condition(predicate.expr) else Fit.NONE

    def search(self, predicate: Predicate) -> SearchResult | None:
        data = self._files.open(_DATA)
        lookup = self._lookup(data, predicate.dtype)
        if lookup.num_rows < self._coverage.num_live_rows:
            raise data.damaged(f"{lookup.num_rows} entries for {self._coverage.num_live_rows} rows")
        most = max(_FEW_PAGES, int(lookup.num_pages * _SELECTIVE_SHARE))
        keys = key_numbers(predicate)
        if keys is not None:
            # Where all pages can be kept, only the first of many lists of keys reads most of them.
            is_kept = lookup.num_rows * _ENTRY_BYTES <= _MAX_KEPT_BYTES
            most = lookup.num_pages if is_kept else max(_FEW_PAGES, int(lookup.num_pages * _SELECTIVE_SHARE_OF_KEYS))
        pages = _matching_pages(lookup, predicate, most)
        if pages is None or (keys is None and self._touch_most_blocks(data, lookup, pages)):
            return None
        return SearchResult(self._matching_rows(data, lookup, pages, predicate, keys))

    def _lookup(self, data: IndexFile, dtype: pa.DataType) -> _Lookup:
        return self._files.kept(_LOOKUP, "pages", lambda: self._load(dtype, data.num_rows))

    def bounds(self, dtype: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
        lookup = self._lookup(self._files.open(_DATA), dtype)
        return pc.min(lookup.lows), pc.max(lookup.highs)

    def _touch_most_blocks(self, data: IndexFile, lookup: _Lookup, pages: Sequence[tuple[int, int]]) -> bool:
        """Whether the rows of pages that match as a whole are spread over the table so that finding them spares no
        reading: they lie in most of the blocks of the column's pages.
        """
        # The first and the last page of a range can have few rows that match.
        num_rows = sum(max(0, last - first - 2) for first, last in pages) * lookup.page_rows
        if num_rows == 0:
            return False
        page = max(pages, key=lambda pair: pair[1] - pair[0])[0] + 1

        def load() -> tuple[float, int]:
            start, stop = lookup.rows_of(page, page + 1)
            (ids,) = data.columns({_ids_name(data): pa.uint64()}, RowRanges.of(start, stop))
            require_no_nulls(data, [ids])
            return len(np.unique(ids.to_numpy() // _BLOCK_ROWS)) / (stop - start), 8

        blocks_per_row = self._files.kept(_DATA, "spread", load)
        num_blocks = -(-sum(self._coverage.fragment_rows.values()) // _BLOCK_ROWS)
        return num_rows * blocks_per_row > num_blocks * _SPREAD_SHARE

    def all_rows(self) -> RowSet | None:
        def load() -> tuple[RowSet, int]:
            file = self._files.open(_DATA)
            (ids,) = file.columns({_ids_name(file): pa.uint64()})
            require_no_nulls(file, [ids])
            return RowSet.of_numbers(ids.to_numpy()), ids.nbytes

        return self._files.kept(_DATA, "rows", load)

    def _load(self, dtype: pa.DataType, num_rows: int) -> tuple[_Lookup, int]:
        file = self._files.open(_LOOKUP)
        if file.metadata.get("range_partitioned", "false") != "false":
            raise file.damaged("a BTREE of several page files is not supported")
        types = {"min": dtype, "max": dtype, "null_count": pa.uint32(), "page_idx": pa.uint32()}
        lows, highs, null_counts, numbers = file.columns(types)
        require_no_nulls(file, [null_counts, numbers])
        page_rows = file.positive_number("batch_size", _DEFAULT_PAGE_ROWS)
        lookup = _Lookup(page_rows, num_rows, lows, highs, null_counts.to_numpy().astype(np.int64))
        if not np.array_equal(numbers.to_numpy(), np.arange(len(numbers))):
            raise file.damaged("the pages are not numbered in order")
        _check_pages(file, lookup)
        return lookup, lookup.num_bytes

    def _matching_rows(
        self,
        data: IndexFile,
        lookup: _Lookup,
        pages: Sequence[tuple[int, int]],
        predicate: Predicate,
        keys: npt.NDArray[np.int64] | None,
    ) -> RowSet:
        numbers = [page for first, last in pages for page in range(first, last)]
        if not numbers:
            return RowSet.empty()

        def load(missing: Sequence[int]) -> list[tuple[_Page, int]]:
            return [(page, page.num_bytes) for page in _load_pages(data, lookup, missing, predicate.dtype)]

        entries = _joined(self._files.kept_parts(_DATA, f"page {predicate.dtype}", numbers, load))
        if keys is not None:
            entries = entries.with_keys(keys)
        kept = entries.ids[predicate.keeps(entries.values)]
        rows = RowSet.of_numbers(kept)
        if len(rows) != len(kept):
            raise data.damaged("a row is in the index twice")
        return rows


@dataclass(frozen=True, slots=True)
class _Page:
    """Entries in index order: `values`, and `ids` uint64[n]."""

    values: pa.Array
    ids: npt.NDArray[np.uint64]

    @property
    def num_bytes(self) -> int:
        return int(self.values.nbytes + self.ids.nbytes)

    def with_keys(self, keys: npt.NDArray[np.int64]) -> _Page:
        """The entries whose values are among `keys`, and possibly more."""
        num_nulls = self.values.null_count  # They come first.
        numbers = whole_numbers(self.values.slice(num_nulls))
        firsts, lasts = np.searchsorted(numbers, keys, "left"), np.searchsorted(numbers, keys, "right")
        ranges = RowRanges(firsts[firsts < lasts], lasts[firsts < lasts])
        places = ranges.indices() + num_nulls
        return _Page(self.values.take(pa.array(places)), self.ids[places])


def _joined(pages: Sequence[_Page]) -> _Page:
    if len(pages) == 1:
        return pages[0]
    return _Page(pa.concat_arrays([page.values for page in pages]), np.concatenate([page.ids for page in pages]))


def _load_pages(data: IndexFile, lookup: _Lookup, numbers: Sequence[int], dtype: pa.DataType) -> list[_Page]:
    """Some pages, ascending, whose values are checked against their bounds."""
    bounds = [lookup.rows_of(page, page + 1) for page in numbers]
    starts, stops = np.array(bounds, np.int64).T
    joined = np.flatnonzero(np.append(True, starts[1:] != stops[:-1]))
    ends = np.append(joined[1:], len(starts)) - 1
    values, ids = _read_data(data, dtype, RowRanges(starts[joined], stops[ends]))
    all_ids = ids.to_numpy()
    found = []
    position = 0
    for page, (start, stop) in zip(numbers, bounds, strict=True):
        own = values.slice(position, stop - start)
        _check_values(data, lookup, page, page + 1, own)
        # A copy: a slice would keep all pages that were read with it.
        copied = pa.concat_arrays([own, own.slice(0, 0)])
        found.append(_Page(copied, all_ids[position : position + stop - start].copy()))
        position += stop - start
    return found


def read_entries(files: IndexFiles, dtype: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.uint64]]:
    """All values of a segment in index order, and their row ids (uint64[n]).

    Raises:
        LanceError: the file is missing or broken.
    """
    values, ids = _read_data(files.open(_DATA), dtype, None)
    return values, ids.to_numpy()


def _read_data(data: IndexFile, dtype: pa.DataType, rows: RowRanges | None) -> list[pa.Array]:
    found = data.columns({"values": dtype, _ids_name(data): pa.uint64()}, rows)
    require_no_nulls(data, found[1:])
    return found


def _ids_name(data: IndexFile) -> str:
    """Releases up to 0.30 called the column row_ids."""
    return "ids" if data.has("ids") else "row_ids"


def _matching_pages(lookup: _Lookup, predicate: Predicate, most: int) -> list[tuple[int, int]] | None:
    """The pages whose bounds do not rule the predicate out, as ascending ranges [first, last); None if they are more
    than `most`.
    """
    marked = None if pt.is_floating(predicate.dtype) else matching_bounds(predicate, lookup.bounds)
    if marked is not None:
        if int(marked.sum()) > most:
            return None
        edges = np.flatnonzero(np.diff(np.concatenate(([False], marked, [False])))).tolist()
        return list(zip(edges[::2], edges[1::2], strict=True))
    found: list[tuple[int, int]] = []
    num_found = 0
    open_ranges = [(0, lookup.num_pages)] if lookup.num_pages else []
    while open_ranges:
        first, last = open_ranges.pop()
        if not predicate.may_match(lookup.statistics(first, last)):
            continue
        if last - first > 1:
            middle = (first + last) // 2
            open_ranges += [(middle, last), (first, middle)]
            continue
        num_found += 1
        if num_found > most:
            return None
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _check_pages(file: IndexFile, lookup: _Lookup) -> None:
    """Raises CorruptFileError if the pages do not add up to the rows of the data file, nulls first, in order."""
    if lookup.num_pages != -(-lookup.num_rows // lookup.page_rows):
        raise file.damaged(f"{lookup.num_pages} pages of {lookup.page_rows} rows for {lookup.num_rows} rows")
    bounds = np.minimum(np.arange(lookup.num_pages + 1) * lookup.page_rows, lookup.num_rows)
    expected = np.clip(lookup.null_counts.sum() - bounds[:-1], 0, np.diff(bounds))
    if not np.array_equal(lookup.null_counts, expected):
        raise file.damaged("the nulls are not at the start of the pages")
    has_low, has_high = lookup.null_counts == 0, lookup.null_counts < np.diff(bounds)
    if not (np.array_equal(_valid(lookup.lows), has_low) and np.array_equal(_valid(lookup.highs), has_high)):
        raise file.damaged("a page has bounds that do not fit its nulls")
    is_ordered = _ascends(lookup.lows, lookup.highs) and _ascends(lookup.highs[:-1], lookup.lows[1:])
    if not is_ordered:
        raise file.damaged("the pages are not in order")


def _ascends(lower: pa.Array, upper: pa.Array) -> bool:
    """Whether no value of `lower` is greater than its counterpart; nulls and NaN pass."""
    known = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    lower, upper = lower.filter(known), upper.filter(known)
    if pa.types.is_floating(lower.type):
        return not bool(np.any(lower.to_numpy() > upper.to_numpy()))
    return pc.any(pc.greater(lower, upper)).as_py() is not True


def _valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _check_values(data: IndexFile, lookup: _Lookup, first: int, last: int, values: pa.Array) -> None:
    """Raises CorruptFileError if the values of the pages [first, last) contradict the lookup file."""
    if values.null_count != int(lookup.null_counts[first:last].sum()):
        raise data.damaged("a page has another number of nulls than the lookup file says")
    known = values.drop_null()
    if len(known) == 0:
        return
    low, high = lookup.lows[first], lookup.highs[last - 1]
    if (low.is_valid and not known[0].equals(low) and _is_number(low)) or (
        not known[-1].equals(high) and _is_number(high)
    ):
        raise data.damaged("the values of a page are outside of its bounds")
    if not _ascends(known[:-1], known[1:]):
        raise data.damaged("the values of a page are not in order")
