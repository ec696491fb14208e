"""Rows that a filter keeps, as its bits.

Where many rows in no order are kept, ranges of them cost more than the values: columns are decoded in full and cut by
the bits. Readers that need ranges see them as those of any other rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.kernels.bits import count_ranges, ranges_of_bits
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.arrow_take import bits_of
from lance_spark.layouts.base import RowRanges


class RowBits(RowRanges):
    """The rows whose bit is true.

    Args:
        keep: bool[n] without nulls.
        first_row: the row of its first value.
        num_rows: how many are true.
    """

    _keep: pa.BooleanArray
    _first_row: int

    def __init__(self, keep: pa.BooleanArray, first_row: int, num_rows: int) -> None:
        object.__setattr__(self, "_keep", keep)
        object.__setattr__(self, "_first_row", first_row)
        object.__setattr__(self, "_num_rows", num_rows)
        object.__setattr__(self, "_numbers", None)

    @property
    def starts(self) -> Int64Array:
        return self._ranges.starts

    @property
    def stops(self) -> Int64Array:
        return self._ranges.stops

    @property
    def num_ranges(self) -> int:
        return self._counted[0]

    @property
    def span(self) -> tuple[int, int]:
        _, start, stop = self._counted
        return self._first_row + start, self._first_row + stop

    def mask(self) -> pa.BooleanArray:
        _, start, stop = self._counted
        return self._keep.slice(start, stop - start)

    @cached_property
    def _ranges(self) -> RowRanges:
        starts, stops = np.empty((2, self.num_ranges + 1), np.int64)
        count = ranges_of_bits(*bits_of(self._keep), address_of(starts), address_of(stops))
        return RowRanges(starts[:count] + self._first_row, stops[:count] + self._first_row)

    @cached_property
    def _counted(self) -> tuple[int, int, int]:
        """(number of ranges, where the first begins in the bits, where the last ends)."""
        span = np.zeros(2, np.int64)
        return count_ranges(*bits_of(self._keep), address_of(span)), *span.tolist()
