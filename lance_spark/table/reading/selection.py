"""Rows of a fragment that a scan reads: all, a range of them, or the rows at some offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.layouts.base import RowRanges
from lance_spark.table.rows.fragment import DataFragment


class FragmentRows(NamedTuple):
    """Rows of one fragment, counted with the deleted ones.

    Attributes:
        offsets: int64[n], ascending, distinct: the rows to read, deleted or not. None for all rows of the range that
            are not deleted.
        start: the first row of the range.
        stop: the row after its last one; None for the end of the fragment.
    """

    fragment: DataFragment
    offsets: Int64Array | None = None
    start: int = 0
    stop: int | None = None

    @property
    def is_range(self) -> bool:
        """Whether these are the live rows of a part of the fragment."""
        if self.offsets is not None:
            return False
        size = self.fragment.physical_rows
        reaches_end = self.stop is None or (size is not None and self.stop >= size)
        return self.start > 0 or not reaches_end

    @property
    def num_rows(self) -> int:
        """Number of rows at most; 0 if only the fragment's files tell."""
        if self.offsets is not None:
            return len(self.offsets)
        stop = (self.fragment.physical_rows or 0) if self.stop is None else self.stop
        return max(0, stop - self.start)

    def until(self, num_rows: int) -> FragmentRows:
        """These rows, without those behind the first `num_rows` of the fragment, and with an end."""
        if self.offsets is None:
            return self._replace(stop=num_rows if self.stop is None else min(self.stop, num_rows))
        if len(self.offsets) and int(self.offsets[-1]) >= num_rows:
            return self._replace(offsets=self.offsets[: int(np.searchsorted(self.offsets, num_rows))])
        return self


Selection = Iterable[DataFragment | FragmentRows]
"""Rows of several fragments, in the order in which they are read; a fragment stands for all rows that are not
deleted.
"""


def fragment_rows(selected: DataFragment | FragmentRows) -> FragmentRows:
    """The rows that an item of a selection stands for."""
    return selected if isinstance(selected, FragmentRows) else FragmentRows(selected)


def ranges_within(offsets: Int64Array, start: int, stop: int) -> RowRanges:
    """The ascending `offsets` that are in [start, stop), as ranges of rows."""
    first, last = np.searchsorted(offsets, (start, stop)).tolist()
    return RowRanges.of_numbers(offsets[first:last])
