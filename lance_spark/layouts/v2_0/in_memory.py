"""Fields of 2.0 files, straight from a file in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.layouts.single_rows import BARE
from lance_spark.layouts.in_memory.columns import MAX_PAGES, InMemoryColumn
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.single_rows import BarePage, SingleRows
from lance_spark.layouts.in_memory.string_rows import BareStrings, StringRows
from lance_spark.layouts.v2_0.base import ArrayEncoding, PageBuffers
from lance_spark.layouts.v2_0.binary import WIDE_OFFSETS, Binary
from lance_spark.layouts.v2_0.column import Column
from lance_spark.layouts.v2_0.fixed_size_list import FixedSizeList
from lance_spark.layouts.v2_0.flat import Flat
from lance_spark.layouts.v2_0.fsst import Fsst
from lance_spark.layouts.v2_0.nodes import LeafNode, ListNode, Node, StructNode
from lance_spark.layouts.v2_0.nullable import AllNull, NoNull, Nullable, SomeNull

_ALIGNMENT = 8

_END_BITS = 64
"""Of the end of a string or list."""

_FEW_ITEMS = 64
"""Items are copied one by one up to this many in a list, on average; the general way copies them list by list."""

PageT = TypeVar("PageT")


class FlatColumn(InMemoryColumn):
    """See `of`."""

    def __init__(self, values: FixedWidth, pages: Sequence[BarePage]) -> None:
        super().__init__(values, sum(page.num_rows for page in pages))
        self._pages = pages

    @classmethod
    def of(cls, data_type: pa.DataType, column: Column) -> FlatColumn | None:
        """A column of `data_type`; None if a page of it is not flat values."""
        values = FixedWidth.of_type(data_type)
        pages = None if values is None else _pages(column, partial(_page, values))
        return None if values is None or pages is None else cls(values, pages)

    def _find_single_rows(self, data: pa.Buffer) -> SingleRows | None:
        return SingleRows.of_bare_pages(self._values, self._pages, data)

    def _whole(self, data: pa.Buffer) -> tuple[list[pa.Array], int] | None:
        """Views of the file."""
        arrays, num_read = [], 0
        for page in self._pages:
            if page.values is None:
                return None
            start, num_bytes, num_valid = page.values.position, page.num_bytes(self._values), page.num_valid_bytes
            if not page.is_inside(self._values, data.size) or (data.address + start) % _ALIGNMENT:
                return None
            validity = None if page.validity is None else data.slice(page.validity.position, num_valid)
            arrays.append(self._values.array(data.slice(start, num_bytes), page.num_rows, validity))
            num_read += num_bytes + num_valid
        return arrays, num_read


@dataclass(frozen=True)
class StructRows:
    """Single rows of structs, none of which is null.

    Attributes:
        data_type: of the structs.
        members: their members, in order.
    """

    data_type: pa.DataType
    members: Sequence[RowsOfNode]

    @property
    def num_bytes(self) -> int:
        """Memory of the tables, in bytes."""
        return sum([member.num_bytes for member in self.members])

    @cached_property
    def value_bits(self) -> int:
        """About how many bits of the file are a value."""
        return sum([member.value_bits for member in self.members])

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order); None as `SingleRows.taken`."""
        found = [member.of_rows(data, rows) for member in self.members]
        arrays = [array for array in found if array is not None]
        if len(arrays) < len(found):
            return None
        return pa.Array.from_buffers(self.data_type, len(rows), [None], children=arrays)


@dataclass(frozen=True)
class ListRows:
    """Single rows of lists.

    Attributes:
        data_type: of the lists.
        ends: the lists as if their items were bytes, those of a page behind the items of the pages before it.
        items: the items.
    """

    data_type: pa.DataType
    ends: StringRows
    items: RowsOfNode

    @classmethod
    def of(cls, lists: ListNode, items: RowsOfNode, data: pa.Buffer) -> ListRows | None:
        """Lists of the file `data`; None if their ends are compressed, or not inside of it."""
        pages, chunks = [], []
        borders = zip(lists.pages, lists.first_items.tolist(), pairwise(lists.column.borders), strict=False)
        for number, (page, first_item, (first_row, stop_row)) in enumerate(borders):
            ends, num_rows = _without_nulls(page.offsets), stop_row - first_row
            if not isinstance(ends, Flat) or ends.width != _END_BITS or ends.scheme != "none":
                return None
            start, size = ends.buffer.locate(lists.column.buffers(number))
            if not 0 <= start <= data.size - size or size < num_rows * _END_BITS // 8:
                return None
            pages.append((BARE, first_item, page.num_items, page.null_offset_adjustment, 0, 0))
            chunks.append((number, start, size, stop_row))
        if not 1 <= len(pages) <= MAX_PAGES:
            return None
        of_pages, of_chunks = [np.ascontiguousarray(np.array(table, np.int64).T) for table in (pages, chunks)]
        return cls(lists.data_type, StringRows(pa.binary(), data.size, of_pages, of_chunks, ()), items)

    @property
    def num_bytes(self) -> int:
        """Memory of the tables, in bytes."""
        return self.ends.num_bytes + self.items.num_bytes

    @property
    def value_bits(self) -> int:
        """About how many bits of the file are a value, without its items."""
        return _END_BITS

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order); None as `SingleRows.taken`, or if they have many items."""
        (places, lengths, _), validity, num_items = self.ends.located(data, rows)
        if not 0 <= num_items <= _FEW_ITEMS * (len(rows) + 1):
            return None
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        numbers = np.repeat(places - data.address - offsets[:-1], lengths) + np.arange(num_items)
        items = self.items.of_rows(data, numbers) if num_items else pa.nulls(0, self.data_type.value_type)
        if items is None:
            return None
        is_wide = pa.types.is_large_list(self.data_type)
        buffers = [validity, pa.py_buffer(offsets if is_wide else offsets.astype(np.int32))]
        return pa.Array.from_buffers(self.data_type, len(rows), buffers, children=[items])


RowsOfNode = SingleRows | StringRows | StructRows | ListRows


def rows_of_node(node: Node, data: pa.Buffer) -> RowsOfNode | None:
    """Single rows of a field of the file `data`; None if the general way has to read them."""
    if isinstance(node, StructNode):
        members = [rows_of_node(member, data) for member in node.members]
        known = [member for member in members if member is not None]
        return StructRows(node.data_type, known) if known and len(known) == len(members) else None
    if isinstance(node, ListNode):
        items = rows_of_node(node.items, data)
        return None if items is None else ListRows.of(node, items, data)
    if not isinstance(node, LeafNode):
        return None
    column = FlatColumn.of(node.data_type, node.column)
    return string_rows(node.data_type, node.column, data) if column is None else column.single_rows(data)


def string_rows(data_type: pa.DataType, column: Column, data: pa.Buffer) -> StringRows | None:
    """A column of strings of the file `data`; None if a page is of another kind."""
    pages = _pages(column, _strings) if data_type in WIDE_OFFSETS else None
    return None if pages is None else StringRows.of_bare_pages(data_type, pages, data)


def _pages(column: Column, page_of: Callable[[ArrayEncoding, PageBuffers, int], PageT | None]) -> list[PageT] | None:
    """The pages of a column as `page_of` returns them; None if one is of another kind or corrupt, or they are many."""
    numbers = range(len(column.encoded.pages))
    if not 1 <= len(numbers) <= MAX_PAGES:
        return None
    counts = [stop - start for start, stop in pairwise(column.borders)]
    try:
        found = [page_of(column.encoding(number), column.buffers(number), counts[number]) for number in numbers]
    except (CorruptFileError, UnsupportedFeatureError):
        # Values of other pages can still be read.
        return None
    pages = [page for page in found if page is not None]
    return pages if len(pages) == len(found) else None


def _strings(encoding: ArrayEncoding, buffers: PageBuffers, num_rows: int) -> BareStrings | None:
    """A page of strings, whose nulls are among their ends."""
    table = None
    values = _without_nulls(encoding)
    if isinstance(values, Fsst):
        table, values = values.symbol_table, values.binary
    if not isinstance(values, Binary) or not values.null_adjustment:
        return None
    ends, codes = _without_nulls(values.indices), _without_nulls(values.data)
    if not isinstance(ends, Flat) or not isinstance(codes, Flat) or (ends.width, codes.width) != (_END_BITS, 8):
        return None
    if ends.scheme != "none" or codes.scheme != "none":
        return None
    places = ends.buffer.locate(buffers), codes.buffer.locate(buffers)
    return BareStrings(*places, values.null_adjustment - 1, values.null_adjustment, table, num_rows)


def _without_nulls(encoding: ArrayEncoding) -> ArrayEncoding:
    """The encoding of the values below one that declares no nulls; any other encoding as it is."""
    if isinstance(encoding, Nullable) and isinstance(encoding.nullability, NoNull):
        return encoding.nullability.values
    return encoding


def _page(values: FixedWidth, encoding: ArrayEncoding, buffers: PageBuffers, num_rows: int) -> BarePage | None:
    """A page of `num_rows` rows, if it holds `values`."""
    valid = None
    nullability = encoding.nullability if isinstance(encoding, Nullable) else NoNull(encoding)
    if isinstance(nullability, AllNull):
        return BarePage(None, None, num_rows)
    if isinstance(nullability, SomeNull):
        validity = nullability.validity
        if not isinstance(validity, Flat) or validity.width != 1 or validity.scheme != "none":
            return None
        valid = validity.buffer.locate(buffers)
    lists = nullability.values
    flat, items = (lists.items, lists.dimension) if isinstance(lists, FixedSizeList) else (lists, 1)
    flat = _without_nulls(flat)
    if not isinstance(flat, Flat) or flat.scheme != "none" or (flat.width, items) != (values.bits, values.items):
        return None
    return BarePage(flat.buffer.locate(buffers), valid, num_rows)
