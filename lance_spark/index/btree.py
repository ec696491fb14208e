"""BTREE: all rows in the order of their values, nulls first, in pages of equal size.

``page_data.lance`` has the columns `values` and `ids`, page after page. ``page_lookup.lance`` has one row for each page
with its smallest and largest value and its number of nulls; a page that starts with nulls has no smallest value.
Floats are in IEEE 754 total order: -NaN, -inf ... -0.0, 0.0 ... inf, NaN.

A search reads the lookup file, and those pages whose bounds do not rule the predicate out. The predicate is evaluated
on their values, so the answer is exact for every predicate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.bounds import key_numbers, matching_bounds
from lance_spark.index.btree_pages import (
    Page,
    PageLookup,
    RowIds,
    check_pages,
    ids_name,
    joined,
    load_entries,
    load_pages,
    read_data,
)
from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.row_set import RowSet
from lance_spark.index.shapes import is_range_condition
from lance_spark.index.spans import Span, span_of, stored_numbers
from lance_spark.layouts.base import RowRanges

BTREE_FILE = "page_data.lance"
_DATA = BTREE_FILE
_LOOKUP = "page_lookup.lance"
_DEFAULT_PAGE_ROWS = 4096

_FEW_PAGES = 16
"""So few pages are read without asking whether that is worth it."""

_SELECTIVE_SHARE = 1 / 4
"""A larger share of the pages is not read: it costs about as much as reading the column."""

_PAGES_AT_ONCE = 64
"""Pages that are read and compared together."""

_ENTRY_BYTES = 16
_ENTRIES_AT_ONCE = 1 << 18
"""Entries that are read together where all are."""

_MAX_KEPT_BYTES = 64 << 20
"""Lists of keys may read all pages of an index that is not larger."""

_SELECTIVE_SHARE_OF_KEYS = 1 / 2
"""The same for lists of keys, of which each has few rows in its page."""

_MANY_PAGES_OF_KEYS = 1 / 8
"""If a list of keys needs a larger share of the pages, they are kept as one and searched at once."""

_BLOCK_ROWS = 1024
"""The approximate number of values that are decoded to read one value of a number column."""

_SPREAD_SHARE = 1 / 2
"""If more of the blocks have matching rows, reading the column is cheaper."""


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
        span = span_of(predicate.expr, predicate.dtype)
        if span is not None:
            return self._in_span(data, lookup, span, predicate.dtype)
        keys = key_numbers(predicate)
        if keys is not None:
            return self._of_keys(data, lookup, keys, predicate.dtype)
        pages = _matching_pages(lookup, predicate, _most_pages(lookup))
        if pages is None or self._touch_most_blocks(data, lookup, pages):
            return None
        numbers = [page for first, last in pages for page in range(first, last)]
        if not numbers:
            return SearchResult(RowSet.empty())
        found = []
        for pages_at_once in self._windows_of_pages(data, lookup, numbers, predicate.dtype):
            entries = joined(pages_at_once)
            found.append(entries.ids[predicate.keeps(entries.values)])
        return _result(data, found)

    def _in_span(self, data: IndexFile, lookup: PageLookup, span: Span, dtype: pa.DataType) -> SearchResult | None:
        first, last = lookup.pages_in(span)
        if last - first > _FEW_PAGES and last - first > _most_pages(lookup):
            return None
        if last - first > 2 and self._touch_most_blocks(data, lookup, [(first, last)]):
            return None
        windows = self._windows_of_pages(data, lookup, range(first, last), dtype)
        return _result(data, [page.in_span(span) for pages in windows for page in pages])

    def _of_keys(
        self, data: IndexFile, lookup: PageLookup, keys: Int64Array, dtype: pa.DataType
    ) -> SearchResult | None:
        firsts, lasts = lookup.pages_of(keys)
        numbers = np.unique(RowRanges(firsts[firsts < lasts], lasts[firsts < lasts]).indices())
        # Where all pages can be kept, only the first of many lists of keys reads most of them.
        is_kept = lookup.num_rows * _ENTRY_BYTES <= _MAX_KEPT_BYTES
        if is_kept and len(numbers) > max(_FEW_PAGES, int(lookup.num_pages * _MANY_PAGES_OF_KEYS)):
            return _result(data, [self._all_entries(data, lookup, dtype).of_keys(keys)])
        if not is_kept and len(numbers) > max(_FEW_PAGES, int(lookup.num_pages * _SELECTIVE_SHARE_OF_KEYS)):
            return None
        starts = np.searchsorted(lasts, numbers, "right").tolist()
        stops = np.searchsorted(firsts, numbers, "right").tolist()
        pages = self._pages(data, lookup, numbers.tolist(), dtype)
        return _result(
            data,
            [page.of_keys(keys[start:stop]) for page, start, stop in zip(pages, starts, stops, strict=True)],
        )

    def _windows_of_pages(
        self, data: IndexFile, lookup: PageLookup, numbers: Sequence[int], dtype: pa.DataType
    ) -> Iterator[list[Page]]:
        """Some pages, ascending, so few at a time that their texts fit into memory and into one array."""
        for start in range(0, len(numbers), _PAGES_AT_ONCE):
            yield self._pages(data, lookup, numbers[start : start + _PAGES_AT_ONCE], dtype)

    def _pages(self, data: IndexFile, lookup: PageLookup, numbers: Sequence[int], dtype: pa.DataType) -> list[Page]:
        """Some pages, ascending."""

        def load(missing: Sequence[int]) -> list[tuple[Page, int]]:
            return [(page, page.num_bytes) for page in load_pages(data, lookup, missing, dtype)]

        return data.kept_rows(f"page {dtype}", numbers, load) if numbers else []

    def _all_entries(self, data: IndexFile, lookup: PageLookup, dtype: pa.DataType) -> Page:
        """All pages as one."""

        def load() -> tuple[Page, int]:
            entries = load_entries(data, lookup, dtype)
            return entries, entries.num_bytes

        return data.kept(f"all pages {dtype}", load)

    def _lookup(self, data: IndexFile, dtype: pa.DataType) -> PageLookup:
        return data.kept(f"bounds of pages {dtype}", lambda: self._load(dtype, data.num_rows))

    def bounds(self, dtype: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
        lookup = self._lookup(self._files.open(_DATA), dtype)
        return pc.min(lookup.lows), pc.max(lookup.highs)

    def _touch_most_blocks(self, data: IndexFile, lookup: PageLookup, pages: Sequence[tuple[int, int]]) -> bool:
        """Whether the rows of pages that match as a whole are spread over the table so that finding them spares no
        reading: they lie in most of the blocks of the column's pages. Texts are always spared: they cost more.
        """
        # The first and the last page of a range can have few rows that match.
        num_rows = sum(max(0, last - first - 2) for first, last in pages) * lookup.page_rows
        if num_rows == 0 or not pt.is_primitive(lookup.lows.type):
            return False
        page = max(pages, key=lambda pair: pair[1] - pair[0])[0] + 1

        def load() -> tuple[float, int]:
            start, stop = lookup.rows_of(page, page + 1)
            (ids,) = data.columns({ids_name(data): pa.uint64()}, RowRanges.of(start, stop))
            require_no_nulls(data, [ids])
            return len(np.unique(ids.to_numpy() // _BLOCK_ROWS)) / (stop - start), 8

        blocks_per_row = data.kept("spread", load)
        num_blocks = -(-sum(self._coverage.fragment_rows.values()) // _BLOCK_ROWS)
        return num_rows * blocks_per_row > num_blocks * _SPREAD_SHARE

    def all_rows(self) -> RowSet | None:
        def load() -> tuple[RowSet, int]:
            file = self._files.open(_DATA)
            (ids,) = file.columns({ids_name(file): pa.uint64()})
            require_no_nulls(file, [ids])
            return RowSet.of_numbers(ids.to_numpy()), ids.nbytes

        return self._files.kept(_DATA, "rows", load)

    def _load(self, dtype: pa.DataType, num_rows: int) -> tuple[PageLookup, int]:
        file = self._files.open(_LOOKUP)
        if file.metadata.get("range_partitioned", "false") != "false":
            raise file.damaged("a BTREE of several page files is not supported")
        types = {"min": dtype, "max": dtype, "null_count": pa.uint32(), "page_idx": pa.uint32()}
        lows, highs, null_counts, numbers = file.columns(types)
        require_no_nulls(file, [null_counts, numbers])
        page_rows = file.positive_number("batch_size", _DEFAULT_PAGE_ROWS)
        lookup = PageLookup(page_rows, num_rows, lows, highs, stored_numbers(null_counts).astype(np.int64))
        if not (stored_numbers(numbers) == np.arange(len(numbers))).all():
            raise file.damaged("the pages are not numbered in order")
        check_pages(file, lookup)
        return lookup, lookup.num_bytes


def _most_pages(lookup: PageLookup) -> int:
    """Maximum number of pages that a search reads."""
    return max(_FEW_PAGES, int(lookup.num_pages * _SELECTIVE_SHARE))


def _result(data: IndexFile, ids: Sequence[RowIds]) -> SearchResult:
    """The rows with some ids, of which each is there once.

    Raises:
        CorruptFileError: one is there twice.
    """
    found = ids[0] if len(ids) == 1 else np.concatenate([np.empty(0, np.uint64), *ids])
    rows = RowSet.of_numbers(found)
    if len(rows) != len(found):
        raise data.damaged("a row is in the index twice")
    return SearchResult(rows)


def read_entries(files: IndexFiles, dtype: pa.DataType) -> Iterator[tuple[pa.Array, npt.NDArray[np.uint64]]]:
    """All values of a segment in index order, and their row ids (uint64[n]), piece by piece.

    Raises:
        LanceError: the file is missing or broken.
    """
    data = files.open(_DATA)
    for start in range(0, data.num_rows, _ENTRIES_AT_ONCE):
        values, ids = read_data(data, dtype, RowRanges.of(start, min(start + _ENTRIES_AT_ONCE, data.num_rows)))
        yield values, ids.to_numpy()


def _matching_pages(lookup: PageLookup, predicate: Predicate, most: int) -> list[tuple[int, int]] | None:
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
