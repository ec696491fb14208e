"""Rows of a fragment that a scan is asked for: all, a part of them, or those at some offsets."""

from __future__ import annotations

from enum import Enum, auto

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.layouts.base import RowRanges
from lance_spark.table.rows.fragment import DataFragment

FragmentRows = tuple[DataFragment, int, int | None, Int64Array | None]
"""Physical rows [start, stop) of a fragment, None for its end; if there are offsets (ascending), those among them."""


class SliceForm(Enum):
    """Representation of the rows of a slice."""

    WHOLE = auto()
    RANGE = auto()
    OFFSETS = auto()


def form_of(piece: FragmentRows) -> SliceForm:
    """The form of a slice; one of all rows of its fragment is WHOLE."""
    fragment, start, stop, offsets = piece
    if offsets is not None:
        return SliceForm.OFFSETS
    reaches_end = stop is None or (fragment.physical_rows is not None and stop >= fragment.physical_rows)
    return SliceForm.WHOLE if start == 0 and reaches_end else SliceForm.RANGE


def offsets_within(offsets: Int64Array, start: int, stop: int | None) -> Int64Array:
    """The ascending `offsets` that are in [start, stop)."""
    first = int(np.searchsorted(offsets, start))
    last = len(offsets) if stop is None else int(np.searchsorted(offsets, stop))
    return offsets[first:last]


def ranges_within(offsets: Int64Array, start: int, stop: int) -> RowRanges:
    """`offsets_within` as ranges of rows."""
    return RowRanges.of_numbers(offsets_within(offsets, start, stop))
