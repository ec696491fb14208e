"""The fields of a 2.0 file as a tree of readable nodes: every struct and list owns a column, like every leaf.

A struct's column has the number of rows, a list's the item range of each row in the columns below it. So a node reads
ranges of *its* values: rows at the top, items below a list. Nodes are coroutines, so that the columns of one field are
read concurrently; below a partially read list the item ranges must be known first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.layouts.arrow_values import all_null
from lance_spark.layouts.base import RowRanges, side_by_side
from lance_spark.layouts.checked_values import checked
from lance_spark.layouts.v2_0.base import FileReads, immediate
from lance_spark.layouts.v2_0.column import Column, PagePart
from lance_spark.layouts.v2_0.end_offsets import Rebased
from lance_spark.layouts.v2_0.list_ import List

NO_ROWS = RowRanges(np.zeros(0, np.int64), np.zeros(0, np.int64))


class Node(ABC):
    """A field with its columns.

    Attributes:
        data_type: the Arrow type of its values.
    """

    data_type: pa.DataType

    @property
    @abstractmethod
    def num_values(self) -> int | None:
        """The number of values of the field in the file; None if unlimited, because values have no bytes."""

    @abstractmethod
    def read(self, ranges: RowRanges) -> FileReads[pa.ChunkedArray]:
        """The values of `ranges`.

        Raises:
            CorruptFileError: the columns are shorter, or their bytes violate the format.
        """


@dataclass(frozen=True, slots=True)
class MissingNode(Node):
    """A field without a column: null in every row."""

    data_type: pa.DataType

    @property
    def num_values(self) -> None:
        return None

    def read(self, ranges: RowRanges) -> FileReads[pa.ChunkedArray]:
        return immediate(pa.chunked_array([all_null(ranges.num_rows, self.data_type)]))


@dataclass(frozen=True, slots=True)
class LeafNode(Node):
    """A field whose values are in the pages of one column."""

    data_type: pa.DataType
    column: Column

    @property
    def num_values(self) -> int:
        return self.column.num_values

    def read(self, ranges: RowRanges) -> FileReads[pa.ChunkedArray]:
        arrays = yield from self.column.read(ranges, self.data_type)
        return pa.chunked_array(arrays, self.data_type)


@dataclass(frozen=True, slots=True)
class StructNode(Node):
    """A struct: its members have as many values as its own column."""

    data_type: pa.DataType
    column: Column
    members: tuple[Node, ...]

    def __post_init__(self) -> None:
        for member in self.members:
            if member.num_values not in (None, self.num_values):
                raise CorruptFileError(
                    f"a struct has {self.num_values} rows, but a member {member.num_values}",
                    column=self.column.encoded.index,
                )

    @property
    def num_values(self) -> int:
        return self.column.num_values

    def read(self, ranges: RowRanges) -> FileReads[pa.ChunkedArray]:
        self.column.parts(ranges)  # Checks the number of values.
        members = yield from side_by_side([member.read(ranges) for member in self.members])
        return struct_array(self.data_type, members)


@dataclass(frozen=True, slots=True)
class ListNode(Node):
    """Lists whose items are another node.

    Attributes:
        wide: whether Arrow's offsets have 64 bits.
        pages: the pages of the column, parsed.
        first_items: int64[pages + 1], index of the first item of each page, followed by the total.
    """

    data_type: pa.DataType
    column: Column
    items: Node
    wide: bool
    pages: tuple[List, ...]
    first_items: Int64Array

    @classmethod
    def of(cls, data_type: pa.DataType, column: Column, items: Node) -> ListNode:
        """Raises `CorruptFileError` if a page is not a list, or the number of items does not match the pages."""
        pages = tuple(_list_page(column, number) for number in range(len(column.encoded.pages)))
        first_items = np.zeros(len(pages) + 1, np.int64)
        np.cumsum([page.num_items for page in pages], out=first_items[1:])
        if items.num_values not in (None, int(first_items[-1])):
            raise CorruptFileError(
                f"lists hold {int(first_items[-1])} items, but there are {items.num_values}",
                column=column.encoded.index,
            )
        return cls(data_type, column, items, bool(pa.types.is_large_list(data_type)), pages, first_items)

    @property
    def num_values(self) -> int:
        return self.column.num_values

    def read(self, ranges: RowRanges) -> FileReads[pa.ChunkedArray]:
        parts = self.column.parts(ranges)
        if all(part.selection.is_all for part in parts):
            spans = [self._whole_span(part) for part in parts]
            rows, items = yield from _rows_and_items(
                side_by_side([self._read_rows(part) for part in parts]), self.items.read(_joined(spans))
            )
        else:
            rows = yield from side_by_side([self._read_rows(part) for part in parts])
            spans = [self._spans(part, part_rows) for part, part_rows in zip(parts, rows, strict=True)]
            items = yield from self.items.read(_joined(spans))
        return list_array(self.data_type, rows, [span.num_rows for span in spans], items)

    def _read_rows(self, part: PagePart) -> FileReads[Rebased]:
        page = self.pages[part.number]
        reads = page.read_rows(self.column.buffers(part.number), part.selection, self.wide)
        return self.column.located(reads, part.number)

    def _whole_span(self, part: PagePart) -> RowRanges:
        return RowRanges.of(int(self.first_items[part.number]), int(self.first_items[part.number + 1]))

    def _spans(self, part: PagePart, rows: Rebased) -> RowRanges:
        first = self.first_items[part.number]
        return RowRanges(rows.starts + first, rows.stops + first)


@dataclass(frozen=True, slots=True)
class ListedBytesNode(Node):
    """Texts or bytes as the first releases of 2.0 wrote them: lists of bytes, in two columns.

    Attributes:
        lists: of `uint8` values.
    """

    data_type: pa.DataType
    lists: ListNode

    @classmethod
    def of(cls, data_type: pa.DataType, column: Column, items: Column) -> ListedBytesNode:
        """Raises `CorruptFileError` as `ListNode.of`."""
        is_wide = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
        list_type: pa.DataType = pa.large_list(pa.uint8()) if is_wide else pa.list_(pa.uint8())
        return cls(data_type, ListNode.of(list_type, column, LeafNode(pa.uint8(), items)))

    @property
    def num_values(self) -> int:
        return self.lists.num_values

    def read(self, ranges: RowRanges) -> FileReads[pa.ChunkedArray]:
        lists = yield from self.lists.read(ranges)
        return pa.chunked_array([self._values(chunk) for chunk in lists.chunks], self.data_type)

    def _values(self, lists: pa.Array) -> pa.Array:
        validity, offsets = lists.buffers()[:2]
        items = lists.values
        if items.null_count:
            raise CorruptFileError("a byte of a text is null", column=self.lists.column.encoded.index)
        data = items.buffers()[1]
        part = None if data is None else data.slice(items.offset, len(items))
        values = pa.Array.from_buffers(self.data_type, len(lists), [validity, offsets, part], lists.null_count)
        try:
            return checked(values)
        except CorruptFileError as error:
            raise error.at(column=self.lists.column.encoded.index) from None


def _list_page(column: Column, number: int) -> List:
    encoding = column.encoding(number)
    if not isinstance(encoding, List):
        raise CorruptFileError(
            f"a page of lists is encoded as {encoding.wire_name}", column=column.encoded.index, page=number
        )
    return encoding


def _rows_and_items(
    rows: FileReads[list[Rebased]], items: FileReads[pa.ChunkedArray]
) -> FileReads[tuple[list[Rebased], pa.ChunkedArray]]:
    results: list[list[Rebased] | pa.ChunkedArray] = yield from side_by_side([rows, items])
    return results[0], results[1]


def _joined(spans: list[RowRanges]) -> RowRanges:
    """Ascending item ranges, without empty ones, adjacent ones merged."""
    if not spans:
        return NO_ROWS
    starts = np.concatenate([span.starts for span in spans])
    stops = np.concatenate([span.stops for span in spans])
    return merged(RowRanges(starts, stops))


def merged(ranges: RowRanges) -> RowRanges:
    """The same values in as few non-empty ranges as possible.

    Raises:
        InvalidInputError: the ranges are not ascending.
    """
    if len(ranges.starts) and ranges.are_apart and ranges.starts[0] >= 0:
        return ranges
    filled = ranges.starts < ranges.stops
    starts, stops = ranges.starts[filled], ranges.stops[filled]
    if len(starts) == 0:
        return NO_ROWS
    if bool((starts[1:] < stops[:-1]).any()) or int(starts[0]) < 0:
        raise InvalidInputError("ranges of rows must ascend and not overlap")
    opens = np.append(True, starts[1:] != stops[:-1])
    return RowRanges(starts[opens], stops[np.append(opens[1:], True)])


def struct_array(data_type: pa.DataType, members: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Structs without nulls from members of equal length, with the chunk boundaries of all members."""
    lengths = {len(member) for member in members}
    if len(lengths) != 1:
        raise CorruptFileError(f"the members of a struct have {sorted(lengths)} values")
    table = pa.Table.from_arrays(members, names=[str(number) for number in range(len(members))])
    chunks = [
        pa.Array.from_buffers(data_type, batch.num_rows, [None], children=batch.columns) for batch in table.to_batches()
    ]
    return pa.chunked_array(chunks, data_type)


def list_array(
    data_type: pa.DataType, rows: list[Rebased], item_counts: list[int], items: pa.ChunkedArray
) -> pa.ChunkedArray:
    """One array of lists for each of `rows`, with `item_counts` of the `items`."""
    chunks, first = [], 0
    for part, num_items in zip(rows, item_counts, strict=True):
        children = _one_array(items.slice(first, num_items))
        buffers = [part.validity, part.offsets]
        chunks.append(pa.Array.from_buffers(data_type, part.num_values, buffers, part.num_nulls, children=[children]))
        first += num_items
    return pa.chunked_array(chunks, data_type)


def _one_array(values: pa.ChunkedArray) -> pa.Array:
    chunks = [chunk for chunk in values.chunks if len(chunk)]
    if not chunks:
        # Not array([], type): before pyarrow 26 that changes the index type of some dictionaries, and rejects others.
        return pa.nulls(0, values.type)
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
