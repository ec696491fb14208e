"""Converts the ends of strings or lists of a 2.0 page to Arrow offsets.

An entry is the end of the value, plus an adjustment for nulls. A range of values [a, b) needs the entries [a - 1, b),
or [0, b) if a is 0. `kernels.v2_0` has a worked example.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.v2_0 import TOO_LONG, rebase_ends
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.v2_0.base import PagesSelection, Selection


@dataclass(frozen=True, slots=True)
class Rebased:
    """Arrow offsets and validity of selected values.

    Attributes:
        num_values: number of values.
        num_nulls: number of nulls.
        offsets: num_values + 1 offsets from 0 into the concatenated items of the ranges.
        validity: bitmap, None without nulls.
        starts: int64, for each selected range its first item in the page.
        stops: int64, for each selected range the item after its last.
    """

    num_values: int
    num_nulls: int
    offsets: pa.Buffer
    validity: pa.Buffer | None
    starts: Int64Array
    stops: Int64Array


def preceded(selection: Selection) -> Selection:
    """The entries that `rebase` needs for a selection of values."""
    if selection.is_all:
        return selection
    starts, stops = _preceded(selection.ranges)
    return Selection(RowRanges(starts, stops), int((stops - starts).sum()), False)


def preceded_in_pages(selection: PagesSelection) -> PagesSelection:
    """The entries that `rebase_pages` needs for a selection of values."""
    return selection.with_ranges(*_preceded(selection.ranges))


def _preceded(ranges: RowRanges) -> tuple[Int64Array, Int64Array]:
    return np.maximum(ranges.starts - 1, 0), ranges.stops


def rebase(ends: pa.UInt64Array, selection: Selection, adjustment: int, num_items: int, wide: bool) -> Rebased:
    """Offsets, validity and item ranges of the selected values.

    Args:
        ends: the entries of `preceded(selection)`.
        adjustment: added to the end of nulls.
        num_items: the largest end; less than `adjustment`.
        wide: whether to use 64-bit instead of 32-bit offsets.

    Raises:
        CorruptFileError: an end is less than the preceding one or beyond the last item.
        InvalidInputError: the items need 64-bit offsets and `wide` is false.
    """
    pages = np.array([[len(selection.ranges.starts)], [num_items], [adjustment]], np.int64)
    return _rebase(ends, selection.ranges, selection.num_values, pages, wide)


def rebase_pages(ends: pa.UInt64Array, selection: PagesSelection, adjustments: list[int], wide: bool) -> Rebased:
    """Offsets, validity and item ranges of the selected values of several pages; see `rebase`.

    The items of each page are one less than its adjustment.

    Args:
        ends: the entries of `preceded_in_pages(selection)`.
        adjustments: of each page.
    """
    added = np.array(adjustments, np.int64)
    pages = np.stack([selection.num_ranges, added - 1, added])
    return _rebase(ends, selection.ranges, selection.num_values, pages, wide)


def _rebase(ends: pa.UInt64Array, ranges: RowRanges, num_values: int, pages: Int64Array, wide: bool) -> Rebased:
    if ends.null_count:
        raise CorruptFileError("the ends of strings or lists cannot be null")
    counts = np.ascontiguousarray(ranges.stops - ranges.starts)
    has_before = (ranges.starts > 0).astype(np.uint8)
    offsets = pa.allocate_buffer((num_values + 1) * (8 if wide else 4))
    validity = pa.allocate_buffer((num_values + 7) // 8)
    np.frombuffer(validity, np.uint8)[:] = 0xFF
    starts, stops = np.empty_like(counts), np.empty_like(counts)
    status = rebase_ends(
        ends.buffers()[1].address, address_of(counts), address_of(has_before), address_of(pages), pages.shape[1], wide,
        offsets.address, validity.address, address_of(starts), address_of(stops),
    )  # fmt: skip
    if status == TOO_LONG:
        raise InvalidInputError("more than 2 GiB of strings or 2**31 list items at once; read fewer rows at a time")
    if status < 0:
        raise CorruptFileError(
            f"an end of a string or list is out of order or behind the last of {int(pages[1].max())} items"
        )
    return Rebased(num_values, status, offsets, validity if status else None, starts, stops)
