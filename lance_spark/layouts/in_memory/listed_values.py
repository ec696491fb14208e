"""The values of rows that are lists, as they lie in memory: for readers that need no Arrow array."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lance_spark.encodings.blocks import FixedWidthBlock, Int64Array, VariableWidthBlock


class ListedValues(NamedTuple):
    """Lists without nulls, of which none is empty.

    Attributes:
        values: of all lists, one list behind the other.
        bounds: int64[n + 1], where the values of each list begin and end.
    """

    values: FixedWidthBlock | VariableWidthBlock
    bounds: Int64Array

    @classmethod
    def of(cls, values: FixedWidthBlock | VariableWidthBlock, starts: Int64Array, num_rows: int) -> ListedValues | None:
        """From the places where lists start; None if these are not the starts of `num_rows` lists."""
        if len(starts) != num_rows or (num_rows > 0 and starts[0] != 0):
            return None
        bounds = np.empty(num_rows + 1, np.int64)
        bounds[:-1] = starts
        bounds[-1] = values.num_values
        return cls(values, bounds)
