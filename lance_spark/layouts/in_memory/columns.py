"""Columns of values of fixed width, straight from a file in memory.

The general way sends requests, and makes tables of chunks and of the places of values in them. For few rows, and for a
million bits, that takes several times as long as the values do. Here one kernel goes over the pages of the file itself.
Columns and files for which it is not made, damaged ones among them, are left to the general way, which also knows what
is wrong with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import FieldsReader, RowRanges
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.single_rows import RowsOfColumn, SingleRows

MAX_PAGES = 256
"""Columns of more pages are not prepared: their layouts would all be parsed for a read of few rows."""

_FEW_ROWS = 1024
_FEW_OF = 8
_SHORT_RANGE = 32
"""Values are copied one by one if there are few of them, or few in proportion, and not in long ranges."""

_FEW_SIDE_BY_SIDE = 1 << 16
"""Up to this many rows side by side, such as those of zones, are copied at once."""


class InMemoryColumn(ABC):
    """A column without lists.

    Args:
        values: what it holds.
        num_rows: of the column.
    """

    def __init__(self, values: FixedWidth, num_rows: int) -> None:
        self._values = values
        self._num_rows = num_rows
        self._single_rows: SingleRows | None = None

    def read(self, data: pa.Buffer, rows: RowRanges) -> tuple[list[pa.Array], int] | None:
        """The values of `rows`, and the bytes that were read for them; None where the general way has to."""
        num_rows = rows.num_rows
        try:
            if rows.is_all(self._num_rows):
                whole = self._whole(data)
                if whole is not None:
                    return whole
            if rows.num_ranges == 1 and 1 < num_rows <= _FEW_SIDE_BY_SIDE:
                found = self._side_by_side(data, int(rows.starts[0]), num_rows)
                if found is not None:
                    return found
            if num_rows <= _FEW_ROWS or (
                num_rows * _FEW_OF <= self._num_rows and num_rows < _SHORT_RANGE * len(rows.starts)
            ):
                return self._taken(data, rows, num_rows)
        except CorruptFileError:
            # The general way says where.
            pass
        return None

    def single_rows(self, data: pa.Buffer) -> SingleRows | None:
        """The column for reads of single rows of the file `data`; None if the general way has to read them.

        Raises:
            CorruptFileError: a page contradicts the format.
        """
        if self._single_rows is None:
            self._single_rows = self._find_single_rows(data)
        return self._single_rows

    def _taken(self, data: pa.Buffer, rows: RowRanges, num_rows: int) -> tuple[list[pa.Array], int] | None:
        column = self.single_rows(data)
        if column is None:
            return None
        numbers = np.ascontiguousarray(rows.starts) if rows.num_ranges == num_rows else rows.indices()
        found = column.taken([RowsOfColumn(column, data, numbers)], num_rows)
        return None if found is None else ([found], num_rows * self._values.value_bits // 8)

    def _side_by_side(self, data: pa.Buffer, first: int, num_rows: int) -> tuple[list[pa.Array], int] | None:
        column = self.single_rows(data)
        found = None if column is None else column.side_by_side(data, first, num_rows)
        return None if found is None else ([found], num_rows * self._values.value_bits // 8)

    @abstractmethod
    def _find_single_rows(self, data: pa.Buffer) -> SingleRows | None:
        """See `single_rows`."""

    @abstractmethod
    def _whole(self, data: pa.Buffer) -> tuple[list[pa.Array], int] | None:
        """`read` of all rows; None also where this is not known to pay."""


class InMemoryFields:
    """Top-level fields of a file, some of which may be columns that can be read from memory."""

    # Not abstract: instances of abstract classes are found by a search, at every read.
    @property
    def in_memory(self) -> Sequence[InMemoryColumn | None] | None:
        """The column of each field, None for others; None if there is no column."""
        return None

    def only(self, places: tuple[int, ...]) -> FieldsReader:
        """Reads the fields at some places in the general way."""
        raise NotImplementedError


def columns_or_none(columns: Sequence[InMemoryColumn | None]) -> Sequence[InMemoryColumn | None] | None:
    """`columns`, None if there is no column."""
    return columns if any(column is not None for column in columns) else None
