"""Array encodings of file version 2.0, without I/O.

A page of a column is one tree of `lance.encodings.ArrayEncoding` messages; its leaves point to buffers of the page.
Every message is a dataclass whose `read` is a coroutine: it requests the bytes of a selection of values (in two rounds
where the second depends on the first) and returns an Arrow array of the requested type. The type comes from the
schema, because the encodings have none: a `Flat` of 32 bits may be ``int32`` or ``float``.

A read of a page costs some tens of calls whatever it holds. So pages with few wanted values and the same encodings are
read as one (`read_pages`), as those of small files are.

Arrays returned by `read` have offset 0 and no bit offset, so that a validity bitmap can be added to their buffers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.v2_0 import plan_ranges
from lance_spark.layouts.base import (
    Answer,
    BufferSlices,
    EncodedBuffer,
    FileRanges,
    FileRequest,
    Located,
    RowRanges,
)
from lance_spark.layouts.read_spans import gathered

ResultT = TypeVar("ResultT")

FileReads: TypeAlias = Generator[list[FileRequest], list[Answer], ResultT]
"""Yields ranges of the file, is sent one answer per request, returns its result."""

MAX_COUNT = 2**48
"""More values or bytes than any page or file has, small enough that sums do not overflow 64 bits."""

MAX_GAP_BYTES = 4096
"""The largest gap between ranges that is read too: no device or page cache reads less, no store skips it."""

EMPTY = pa.py_buffer(b"")


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected values of an array.

    Attributes:
        ranges: the indices of the values.
        num_values: the number of values.
        is_all: whether these are all values of the array, so that its buffers can be read completely in one round.
    """

    ranges: RowRanges
    num_values: int
    is_all: bool

    @classmethod
    def of(cls, ranges: RowRanges, array_length: int) -> Selection:
        """`ranges` of an array of `array_length` values."""
        return cls(ranges, ranges.num_rows, ranges.is_all(array_length))

    @classmethod
    def all(cls, array_length: int) -> Selection:
        """Every value of an array.

        Raises:
            CorruptFileError: implausible length.
        """
        if not 0 <= array_length < MAX_COUNT:
            raise CorruptFileError(f"an array of {array_length} values is impossible")
        starts, stops = ([0], [array_length]) if array_length else ([], [])
        return cls(RowRanges(np.array(starts, np.int64), np.array(stops, np.int64)), array_length, True)

    def scaled(self, factor: int) -> Selection:
        """The items of the selected values, if each value has `factor` items.

        Raises:
            CorruptFileError: implausible length.
        """
        if self.num_values and int(self.ranges.stops[-1]) * factor >= MAX_COUNT:
            raise CorruptFileError(f"lists of {factor} items each are impossible in a page")
        if factor == 0:
            return Selection.all(0)
        ranges = RowRanges(self.ranges.starts * factor, self.ranges.stops * factor)
        return Selection(ranges, self.num_values * factor, self.is_all)


@dataclass(frozen=True, slots=True)
class PagesSelection:
    """Selected values of several pages, page after page.

    Attributes:
        ranges: the indices of the values, each range from the first value of its page. No range is empty.
        pages: int64[n], contiguous: the page of each range, as an index into those that are read together.
        num_ranges: int64[pages], the ranges of each page, at least one.
        num_values: the number of values.
    """

    ranges: RowRanges
    pages: Int64Array
    num_ranges: Int64Array
    num_values: int

    @classmethod
    def all(cls, lengths: Int64Array) -> PagesSelection:
        """Every value of arrays of `lengths` (int64[pages]), none of which is empty."""
        count = len(lengths)
        ranges = RowRanges(np.zeros(count, np.int64), lengths)
        return cls(ranges, np.arange(count), np.ones(count, np.int64), int(lengths.sum()))

    def with_ranges(self, starts: Int64Array, stops: Int64Array) -> PagesSelection:
        """Other ranges of the same pages, one for each of these."""
        return PagesSelection(RowRanges(starts, stops), self.pages, self.num_ranges, int((stops - starts).sum()))

    def values_of_pages(self) -> Int64Array:
        """int64[pages], the selected values of each page."""
        ends = np.cumsum(self.ranges.stops - self.ranges.starts)[np.cumsum(self.num_ranges) - 1]
        values: Int64Array = np.diff(ends, prepend=0)
        return values


@dataclass(frozen=True, slots=True)
class PageBuffers:
    """The buffers that the encodings of one page can refer to."""

    page: tuple[EncodedBuffer, ...]
    column: tuple[EncodedBuffer, ...]
    file: tuple[EncodedBuffer, ...]


@dataclass(frozen=True, slots=True)
class BufferReference:
    """`lance.encodings.Buffer`: buffer `index` of the page (0), the column (1) or the file (2)."""

    index: int
    collection: int

    @classmethod
    def from_proto(cls, message: Any) -> BufferReference:
        return cls(message.buffer_index, message.buffer_type)

    def locate(self, buffers: PageBuffers) -> EncodedBuffer:
        """The file range of the buffer.

        Raises:
            CorruptFileError: there is no such buffer.
        """
        collections = (buffers.page, buffers.column, buffers.file)
        if not 0 <= self.collection < len(collections):
            raise CorruptFileError(f"there is no kind {self.collection} of buffers")
        if self.index >= len(collections[self.collection]):
            raise CorruptFileError(f"buffer {self.index} is missing, there are {len(collections[self.collection])}")
        return collections[self.collection][self.index]


class ArrayEncoding(ABC):
    """One `lance.encodings.ArrayEncoding` message; subclasses are frozen dataclasses named after the wire message."""

    wire_name: ClassVar[str]
    """Name of the member of the `array_encoding` oneof, such as ``"flat"``."""

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any) -> ArrayEncoding:
        """From the member message (not the enclosing oneof).

        Raises:
            CorruptFileError: the message is inconsistent.
        """

    @abstractmethod
    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        """The selected values as an array of `arrow_type`, offset 0.

        Raises:
            CorruptFileError: the bytes are inconsistent with the encoding, or the encoding with the type.
        """

    @property
    def bits_per_value(self) -> int | None:
        """Bits of one stored value; None if values differ in size or the width is unknown."""
        return None

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        """Pages whose encodings have equal keys can be read together (`read_pages`); None if this one cannot be."""
        return None

    def read_pages(
        self,
        encodings: Sequence[ArrayEncoding],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        """The selected values of several pages as one array. `encodings` begins with this one; all have its key."""
        raise NotImplementedError(self.wire_name)


def read_slices(buffers: Sequence[EncodedBuffer], selection: PagesSelection) -> FileReads[Located]:
    """Ranges of bytes of one buffer of each page, left where they are.

    Raises:
        CorruptFileError: a range is out of bounds.
    """
    starts = np.ascontiguousarray(selection.ranges.starts)
    slices = BufferSlices(0, starts, np.ascontiguousarray(selection.ranges.stops - starts), selection.pages)
    positions, sizes = [buffer.position for buffer in buffers], [buffer.size for buffer in buffers]
    if max(positions) + max(sizes) > MAX_COUNT:
        raise CorruptFileError("a buffer lies behind the end of any file")
    [(data, places)] = yield [slices.within_buffers(positions, sizes)]
    return Located(data, places)


def read_bytes(buffer: EncodedBuffer, starts: Int64Array, stops: Int64Array) -> FileReads[pa.Buffer]:
    """Bytes [starts[i], stops[i]) of `buffer` for every i, back to back; zero-copy for one range.

    `starts` of ranges that are not empty ascend. Ranges with gaps of up to `MAX_GAP_BYTES` are read as one.

    Raises:
        CorruptFileError: a range is out of bounds.
    """
    data, places = yield from read_located(buffer, starts, stops)
    return gathered(data, places, stops - starts) if len(places) else EMPTY


def read_located(buffer: EncodedBuffer, starts: Int64Array, stops: Int64Array) -> FileReads[Located]:
    """Locations of the bytes [starts[i], stops[i]), see `read_bytes`; those of empty ranges are undefined."""
    if len(starts) == 1 and starts[0] < stops[0]:
        start, stop = int(starts[0]), int(stops[0])
        [piece] = yield [buffer.slice(start, stop - start)]
        return Located(piece, np.zeros(1, np.int64))
    if buffer.position + buffer.size > MAX_COUNT:
        raise CorruptFileError("a buffer lies behind the end of any file", start=buffer.position, length=buffer.size)
    count = len(starts)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    table = np.empty((4, count + 1), np.int64)
    ranges = address_of(starts), address_of(stops), count
    num_spans = plan_ranges(*ranges, *buffer, MAX_GAP_BYTES, address_of(table))
    if num_spans < 0:
        raise CorruptFileError(
            f"values are out of order, or outside of a buffer of {buffer.size} bytes",
            start=buffer.position,
            length=buffer.size,
        )
    if num_spans == 0:
        return Located(EMPTY, np.zeros(count, np.int64))
    spans = FileRanges(table[0, :num_spans], table[1, :num_spans], int(table[0, count]), int(table[1, count]))
    [(data, places)] = yield [spans]
    return Located(data, places[table[2, :count]] + table[3, :count])


def aligned(data: pa.Buffer, alignment: int) -> pa.Buffer:
    """`data` at an address with the `alignment` that Arrow's kernels need; copied only if necessary."""
    if data.size == 0 or data.address % alignment == 0:
        return data
    copy = pa.allocate_buffer(data.size)
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(data, np.uint8)
    return copy


def immediate(result: ResultT) -> FileReads[ResultT]:
    """A coroutine without requests that returns `result`."""
    return result
    yield


def require_type(matches: bool, encoding: str, arrow_type: pa.DataType) -> None:
    """Raises `CorruptFileError` unless the encoding supports the schema's type."""
    if not matches:
        raise CorruptFileError(f"the page encoding {encoding} cannot hold values of type {arrow_type}")
