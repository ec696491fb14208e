"""Columns of values of fixed width, straight from a file in memory.

The general way sends requests, and makes tables of chunks and of the places of values in them. For few rows, and for a
million bits, that takes several times as long as the values do. Here one kernel goes over the pages of the file itself.
Columns and files for which it is not made, damaged ones among them, are left to the general way, which also knows what
is wrong with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.base import FieldsReader, RowRanges
from lance_spark.layouts.in_memory.fixed_width import FixedWidth

MAX_PAGES = 256
"""Columns of more pages are not prepared: their layouts would all be parsed for a read of few rows."""

_FEW_ROWS = 1024
_FEW_OF = 8
_SHORT_RANGE = 32
"""Values are copied one by one if there are few of them, or few in proportion, and not in long ranges."""


class InMemoryColumn(ABC):
    """A column without lists.

    Args:
        values: what it holds.
        pages: int64[7, n], see `lance_spark.kernels.layouts.in_memory`.
        has_nulls: whether the pages say which values are null.
    """

    def __init__(self, values: FixedWidth, pages: Int64Array, *, has_nulls: bool) -> None:
        self._values = values
        # Kept, because its address is.
        self._pages = pages
        self._page_table = address_of(pages), pages.shape[1]
        self._num_rows = sum(pages[4].tolist())
        self._has_nulls = has_nulls

    def read(self, data: pa.Buffer, rows: RowRanges) -> tuple[list[pa.Array], int] | None:
        """The values of `rows`, and the bytes that were read for them; None where the general way has to."""
        num_rows = rows.num_rows
        try:
            if rows.is_all(self._num_rows):
                whole = self._whole(data)
                if whole is not None:
                    return whole
            if num_rows <= _FEW_ROWS or (
                num_rows * _FEW_OF <= self._num_rows and num_rows < _SHORT_RANGE * len(rows.starts)
            ):
                return self._taken(data, rows, num_rows)
        except CorruptFileError:
            # The general way says where.
            pass
        return None

    @abstractmethod
    def _taken(self, data: pa.Buffer, rows: RowRanges, num_rows: int) -> tuple[list[pa.Array], int] | None:
        """`read` of some rows, one by one."""

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
