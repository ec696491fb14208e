"""Columns of values of fixed width, straight from a file in memory.

The general way sends requests, and makes tables of chunks and of the places of values in them. For few rows, and for a
million bits, that takes several times as long as the values do. Here one kernel goes over the pages of the file itself.
Columns and files for which it is not made, damaged ones among them, are left to the general way, which also knows what
is wrong with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Block, FixedSizeListBlock, FixedWidthBlock, Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.arrow_values import block_to_array
from lance_spark.layouts.base import FieldsReader, RowRanges
from lance_spark.layouts.checked_values import PLAIN

MAX_PAGES = 256
"""Columns of more pages are not prepared: their layouts would all be parsed for a read of few rows."""

_FEW_ROWS = 1024
_FEW_OF = 8
_SHORT_RANGE = 32
"""Values are copied one by one if there are few of them, or few in proportion, and not in long ranges."""


@dataclass(frozen=True)
class FixedWidth:
    """Values of fixed width.

    Attributes:
        data_type: their type.
        bits: of an item: 1, or a multiple of 8.
        items: of a fixed-size list; 1 of other values.
    """

    data_type: pa.DataType
    bits: int
    items: int = 1

    @classmethod
    def of(cls, data_type: pa.DataType, bits: int, items: int = 1) -> FixedWidth | None:
        """None for types and widths of which this module knows nothing."""
        item_type = data_type
        if items > 1 or pa.types.is_fixed_size_list(data_type):
            if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != items or bits == 1:
                return None
            item_type = data_type.value_type
        if pa.types.is_nested(item_type) or pa.types.is_dictionary(item_type) or not (bits == 1 or bits % 8 == 0):
            return None
        try:
            return cls(data_type, bits, items) if 0 < bits == item_type.bit_width else None
        except ValueError:
            return None

    @cached_property
    def value_bits(self) -> int:
        """The bits of a value."""
        return self.bits * self.items

    def array(self, data: pa.Buffer, num_values: int, validity: pa.Buffer | None) -> pa.Array:
        """An array of the values.

        Raises:
            CorruptFileError: they are not of this type.
        """
        if self.data_type.id in PLAIN:
            return pa.Array.from_buffers(self.data_type, num_values, [validity, data])
        block: Block = FixedWidthBlock(data, self.bits, num_values * self.items)
        if pa.types.is_fixed_size_list(self.data_type):
            block = FixedSizeListBlock(block, self.items, None, num_values)
        return block_to_array(block, self.data_type, validity)


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

    def _taken(self, data: pa.Buffer, rows: RowRanges, num_rows: int) -> tuple[list[pa.Array], int] | None:
        starts, stops = rows.starts, rows.stops
        if not (starts.flags.c_contiguous and stops.flags.c_contiguous):
            starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
        target = pa.allocate_buffer((num_rows * self._values.value_bits + 7) // 8)
        validity = pa.allocate_buffer((num_rows + 7) // 8) if self._has_nulls else None
        num_read = self._take(
            (data.address, data.size, *self._page_table),
            (address_of(starts), address_of(stops), len(starts), num_rows),
            target.address,
            0 if validity is None else validity.address,
        )
        return None if num_read < 0 else ([self._values.array(target, num_rows, validity)], num_read)

    @abstractmethod
    def _whole(self, data: pa.Buffer) -> tuple[list[pa.Array], int] | None:
        """`read` of all rows; None also where this is not known to pay."""

    @abstractmethod
    def _take(
        self, pages: tuple[int, int, int, int], rows: tuple[int, int, int, int], target: int, validity: int
    ) -> int:
        """Copies the values of some rows: arguments and result of the kernels of `kernels.layouts.in_memory`."""


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
