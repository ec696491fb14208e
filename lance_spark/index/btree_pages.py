"""The pages of a BTREE in memory: their bounds, and those that were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.prune import ColumnStatistics
from lance_spark.index.bounds import Bounds
from lance_spark.index.files import IndexFile, require_no_nulls
from lance_spark.index.spans import Keys, Span, is_numbered, keys_of, stored_numbers
from lance_spark.kernels.text_order import texts_ascend
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.leaf.values import is_variable

RowIds = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class PageLookup:
    """Statistics of all pages: `lows` and `highs` are their bounds, `null_counts` int64[n] their nulls.

    Nulls come first. The other values ascend from page to page, so the pages of a span are found by binary search.
    """

    page_rows: int
    num_rows: int
    lows: pa.Array
    highs: pa.Array
    null_counts: Int64Array

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return len(self.null_counts)

    @property
    def num_bytes(self) -> int:
        """Approximate memory of the statistics, in bytes."""
        return int(2 * (self.lows.nbytes + self.highs.nbytes) + self.null_counts.nbytes)

    @cached_property
    def bounds(self) -> Bounds:
        """Bounds of each page, unless values can be NaN: the total order puts some before all numbers."""
        num_rows = np.diff(np.minimum(np.arange(self.num_pages + 1) * self.page_rows, self.num_rows))
        return Bounds(self.lows, self.highs, self.null_counts < num_rows)

    @cached_property
    def _low_keys(self) -> Keys:
        """The lower bounds of the pages that have one, those without nulls."""
        return keys_of(self.lows.slice(self.lows.null_count))

    @cached_property
    def _high_keys(self) -> Keys:
        """The upper bounds of the pages that have one, those with a value."""
        return keys_of(self.highs.slice(self.highs.null_count))

    def pages_in(self, span: Span) -> tuple[int, int]:
        """The pages [first, last) that can have values in a span. The type of the values has keys."""
        first = self.highs.null_count + span.first(self._high_keys)
        # A page that begins with nulls has no lower bound.
        num_unbound = self.lows.null_count
        last = num_unbound + span.last(self._low_keys, max(0, first - num_unbound))
        return first, max(first, last)

    def pages_of(self, keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(firsts, lasts), int64[n] each: the pages [first, last) that can have each of some ascending keys."""
        firsts = self.highs.null_count + np.searchsorted(self._high_keys, keys, "left")
        lasts = self.lows.null_count + np.searchsorted(self._low_keys, keys, "right")
        return firsts, np.maximum(firsts, lasts)

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        """The rows [start, stop) of the pages [first, last)."""
        return first * self.page_rows, min(last * self.page_rows, self.num_rows)

    def statistics(self, first: int, last: int) -> ColumnStatistics:
        """Statistics of the values of the pages [first, last)."""
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


@dataclass(frozen=True)
class Page:
    """Entries in index order: `values`, and `ids` uint64[n]."""

    values: pa.Array
    ids: RowIds

    @property
    def num_bytes(self) -> int:
        """Approximate memory of the entries, in bytes."""
        return int(2 * self.values.nbytes + self.ids.nbytes)

    @cached_property
    def _keys(self) -> Keys:
        return keys_of(self.values.slice(self.values.null_count))

    @property
    def _valued_ids(self) -> RowIds:
        return self.ids[self.values.null_count :]

    def in_span(self, span: Span) -> RowIds:
        """The ids of the values in a span. The type of the values has keys."""
        first = span.first(self._keys)
        return self._valued_ids[first : span.last(self._keys, first)]

    def of_keys(self, keys: Int64Array) -> RowIds:
        """The ids of the values that are among some numbers (int64[n], ascending)."""
        own, ids = self._keys, self._valued_ids
        firsts, lasts = own.searchsorted(keys, "left"), own.searchsorted(keys, "right")
        counts = lasts - firsts
        if counts.max(initial=0) <= 1:
            return ids[firsts[counts > 0]]
        return ids[RowRanges(firsts[counts > 0], lasts[counts > 0]).indices()]


def joined(pages: Sequence[Page]) -> Page:
    """The entries of several pages."""
    if len(pages) == 1:
        return pages[0]
    return Page(pa.concat_arrays([page.values for page in pages]), np.concatenate([page.ids for page in pages]))


def load_pages(data: IndexFile, lookup: PageLookup, numbers: Sequence[int], dtype: pa.DataType) -> list[Page]:
    """Some pages, ascending, whose values are checked against their bounds.

    Raises:
        CorruptFileError: they contradict each other, or the file is broken.
    """
    bounds = [lookup.rows_of(page, page + 1) for page in numbers]
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        rows = RowRanges.of(bounds[0][0], bounds[-1][1])
    else:
        starts, stops = np.array(bounds, np.int64).T
        is_first = np.concatenate([[True], starts[1:] != stops[:-1]])
        rows = RowRanges(starts[is_first], stops[np.roll(is_first, -1)])
    values, ids = read_data(data, dtype, rows)
    all_ids = row_ids(ids)
    is_checked = _fit_whole_numbers(lookup, numbers, bounds, values)
    found = []
    position = 0
    for page, (start, stop) in zip(numbers, bounds, strict=True):
        own, own_ids = values.slice(position, stop - start), all_ids[position : position + stop - start]
        if not is_checked:
            _check_values(data, lookup, page, page + 1, own)
        if len(numbers) > 1:
            # A copy: a slice would keep all pages that were read with it.
            own, own_ids = pa.concat_arrays([own, own.slice(0, 0)]), own_ids.copy()
        found.append(Page(own, own_ids))
        position += stop - start
    return found


def load_entries(data: IndexFile, lookup: PageLookup, dtype: pa.DataType) -> Page:
    """All pages as one, checked. Raises as `load_pages`."""
    values, ids = read_data(data, dtype, None)
    bounds = [lookup.rows_of(page, page + 1) for page in range(lookup.num_pages)]
    if not _fit_whole_numbers(lookup, range(lookup.num_pages), bounds, values):
        for page, (start, stop) in enumerate(bounds):
            _check_values(data, lookup, page, page + 1, values.slice(start, stop - start))
    return Page(values, row_ids(ids))


def read_data(data: IndexFile, dtype: pa.DataType, rows: RowRanges | None) -> list[pa.Array]:
    """[values, ids] at some rows of the file of the pages, None for all. Raises as `load_pages`."""
    found = data.columns({"values": dtype, ids_name(data): pa.uint64()}, rows)
    require_no_nulls(data, found[1:])
    return found


def row_ids(ids: pa.Array) -> RowIds:
    """Row ids, which are not null, as numbers."""
    return stored_numbers(ids).view(np.uint64)


def ids_name(data: IndexFile) -> str:
    """Releases up to 0.30 called the column row_ids."""
    return "ids" if data.has("ids") else "row_ids"


def check_pages(file: IndexFile, lookup: PageLookup) -> None:
    """Nothing, if the pages add up to the rows of the data file, nulls first, in order.

    Raises:
        CorruptFileError: they do not.
    """
    if lookup.num_pages != -(-lookup.num_rows // lookup.page_rows):
        raise file.damaged(f"{lookup.num_pages} pages of {lookup.page_rows} rows for {lookup.num_rows} rows")
    are_valid = lookup.lows.null_count == 0 and lookup.highs.null_count == 0
    if lookup.null_counts.any():
        bounds = np.minimum(np.arange(lookup.num_pages + 1) * lookup.page_rows, lookup.num_rows)
        num_rows = bounds[1:] - bounds[:-1]
        expected = (lookup.null_counts.sum() - bounds[:-1]).clip(0, num_rows)
        if not (lookup.null_counts == expected).all():
            raise file.damaged("the nulls are not at the start of the pages")
        has_low, has_high = lookup.null_counts == 0, lookup.null_counts < num_rows
        are_valid = _are_valid(lookup.lows, has_low) and _are_valid(lookup.highs, has_high)
    if not are_valid:
        raise file.damaged("a page has bounds that do not fit its nulls")
    if not _are_in_order(lookup.lows, lookup.highs):
        raise file.damaged("the pages are not in order")


def _are_in_order(lows: pa.Array, highs: pa.Array) -> bool:
    """Whether the bounds of pages ascend, in each page and from page to page."""
    if is_numbered(lows.type) and not lows.null_count and not highs.null_count:
        low, high = stored_numbers(lows), stored_numbers(highs)
        return not (low > high).any() and not (high[:-1] > low[1:]).any()
    return _ascends(lows, highs) and _ascends(highs[:-1], lows[1:])


def _ascends(lower: pa.Array, upper: pa.Array) -> bool:
    """Whether no value of `lower` is greater than its counterpart; nulls and NaN pass."""
    if lower.null_count or upper.null_count:
        known = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
        lower, upper = lower.filter(known), upper.filter(known)
    if is_numbered(lower.type):
        return not bool((stored_numbers(lower) > stored_numbers(upper)).any())
    if pa.types.is_floating(lower.type):
        return not bool(np.any(lower.to_numpy() > upper.to_numpy()))
    if is_variable(lower.type) and lower.type == upper.type and len(lower):
        return _texts_ascend(lower, upper)
    return pc.any(pc.greater(lower, upper)).as_py() is not True


def _texts_ascend(lower: pa.Array, upper: pa.Array) -> bool:
    width = 8 if pa.types.is_large_string(lower.type) or pa.types.is_large_binary(lower.type) else 4
    texts = []
    for values in (lower, upper):
        _, offsets, data = values.buffers()
        texts += [offsets.address + width * values.offset, *((0, 0) if data is None else (data.address, data.size))]
    return bool(texts_ascend(*texts, len(lower), width) == 1)


def _are_valid(values: pa.Array, expected: npt.NDArray[np.bool_]) -> bool:
    """Whether just the `expected` ones (bool[n]) of some values are not null."""
    if len(values) != len(expected):
        return False
    if values.null_count == 0:
        return bool(expected.all())
    return bool((values.is_valid().to_numpy(zero_copy_only=False) == expected).all())


def _fit_whole_numbers(
    lookup: PageLookup, numbers: Sequence[int], bounds: Sequence[tuple[int, int]], values: pa.Array
) -> bool:
    """Whether the values of ascending pages are known to be whole numbers that fit the lookup file, by one look at all.

    Args:
        bounds: the rows [start, stop) of each of the pages.
    """
    if not pa.types.is_integer(values.type) or values.null_count:
        return False
    own, lows, highs = stored_numbers(values), stored_numbers(lookup.lows), stored_numbers(lookup.highs)
    null_counts, first = lookup.null_counts, 0
    for page, (start, stop) in zip(numbers, bounds, strict=True):
        after = first + stop - start
        if null_counts[page] or own[first] != lows[page] or own[after - 1] != highs[page]:
            return False
        first = after
    return bool((own[1:] >= own[:-1]).all())


def _check_values(data: IndexFile, lookup: PageLookup, first: int, last: int, values: pa.Array) -> None:
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


def _is_number(bound: pa.Scalar) -> bool:
    if not bound.is_valid:
        return False
    return not pa.types.is_floating(bound.type) or not np.isnan(bound.as_py())
