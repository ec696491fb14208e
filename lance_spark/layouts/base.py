"""Pages without I/O.

A page knows only the sizes of its buffers. Reading one is a coroutine (`Reads`): it yields the slices of the page's
buffers that it needs next (for blobs also ranges of the file), is sent the bytes, and returns an Arrow array. The file
layer runs the coroutines of all columns and pages of a request concurrently, so each round of requests is one batch of
coalesced, parallel reads, and a full scan needs a single round. Many slices are one request, because a file in memory
answers it without an object for each.

A leaf column decodes to a *path array*: an Arrow array whose type is the path of the schema from the top-level
field down to this leaf. For ``s: struct<a: int32, l: list<string>>`` column 0 gives ``struct<a: int32>`` and
column 1 gives ``struct<l: list<string>>``; `merge` combines them once they cover the same rows.

Above the pages there is a coroutine of top-level fields (`FieldsReader`), because columns differ by version: since
2.1 a column is a leaf, in 2.0 every struct and list owns a column too and the items of a list are addressed by item
ranges. It requests absolute ranges of the file (`FileRange`): buffers of a page, a column or the
file, and blobs anywhere, are then one kind of request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.bits import bits_of_ranges
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import are_apart, move_slices, numbers_of_ranges, ranges_of_numbers
from lance_spark.layouts.path import LeafPath

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


class BufferSlice(NamedTuple):
    """`length` bytes from byte `start` of the page's buffer `buffer`; validated by `EncodedPage.locate`.

    `page` is the index of the page if several are read together.
    """

    buffer: int
    start: int
    length: int
    page: int = 0


class FileRange(NamedTuple):
    """`length` bytes of the file from byte `start`. The file layer validates it against the file's size."""

    start: int
    length: int


class BufferSlices(NamedTuple):
    """Many slices of a buffer of some pages, as one request. The answer is `Located`.

    Attributes:
        buffer: the number of the buffer.
        starts, lengths: int64[n], contiguous: bytes from the start of the buffer; validated by `within_buffers`.
        pages: int64[n], contiguous, ascending: the indices of the pages.
    """

    buffer: int
    starts: Int64Array
    lengths: Int64Array
    pages: Int64Array

    def within_buffers(self, positions: Sequence[int], sizes: Sequence[int]) -> FileRanges:
        """The file ranges of the slices.

        Args:
            positions, sizes: of the buffer in each page: where it begins in the file, and its bytes.

        Raises:
            CorruptFileError: a slice is out of bounds.
        """
        count = len(self.starts)
        buffers, moved = np.array([positions, sizes], np.int64), np.empty(count + 1, np.int64)
        slices = [address_of(table) for table in (self.starts, self.lengths, self.pages)]
        num_bytes = move_slices(*slices, count, address_of(buffers), len(positions), address_of(moved))
        if num_bytes < 0:
            raise CorruptFileError("bytes outside of a buffer of a page")
        return FileRanges(moved[:count], self.lengths, num_bytes, int(moved[count]))


class FileRanges(NamedTuple):
    """Many ranges of the file, as `FileRange`, as one request. The answer is `Located`.

    Attributes:
        starts, lengths: int64[n], contiguous; not negative.
        num_bytes: the sum of the lengths.
        stop: where the last one of them ends.
    """

    starts: Int64Array
    lengths: Int64Array
    num_bytes: int
    stop: int


class Located(NamedTuple):
    """Pieces of memory.

    Attributes:
        data: a buffer around all of them; what is between them must not be accessed.
        starts: int64[n], contiguous: where each piece begins in it.
    """

    data: pa.Buffer
    starts: Int64Array


_MANY_RANGES = 2048
"""Up to this many ranges, all of them are compared: that takes less time than to search."""

PageRequest: TypeAlias = BufferSlice | BufferSlices | FileRange
FileRequest: TypeAlias = FileRange | FileRanges
Answer: TypeAlias = Any
"""A buffer; `Located` if many ranges were one request."""

Reads: TypeAlias = Generator[list[PageRequest], list[Answer], ResultT]
"""Yields requests, is sent one answer per request (a buffer, or `Located`), returns its result."""


@dataclass(frozen=True, slots=True)
class Page:
    """The metadata of a page that its layout decodes.

    Attributes:
        buffer_sizes: bytes of each of the page's buffers.
        num_rows: `Page.length` of the wire format.
        path: the path from the top-level field to the leaf of this column.
        kept: buffers that its layout keeps for later reads, by their numbers.
        num_bytes: the sum of `buffer_sizes`.
    """

    buffer_sizes: tuple[int, ...]
    num_rows: int
    path: LeafPath
    kept: dict[int, pa.Buffer] = field(default_factory=dict, repr=False, compare=False)
    num_bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_bytes", sum(self.buffer_sizes))

    def whole(self, buffer: int, page: int = 0) -> BufferSlice:
        """A complete buffer; `EncodedPage.locate` raises if there is no such buffer."""
        return BufferSlice(buffer, 0, self.size_of(buffer), page)

    def size_of(self, buffer: int) -> int:
        """The bytes of a buffer; 0 if there is none."""
        return self.buffer_sizes[buffer] if buffer < len(self.buffer_sizes) else 0


class PageLayout(ABC):
    """One `PageLayout` message. Subclasses are frozen, slotted dataclasses named after the wire message."""

    wire_name: ClassVar[str]
    """Name of the member of the `layout` oneof, such as ``"mini_block_layout"``."""

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any) -> PageLayout:
        """From the member message (not the enclosing oneof).

        Raises:
            CorruptFileError: the message is inconsistent.
            UnsupportedFeatureError: it contains an encoding that this release does not know.
        """

    @abstractmethod
    def to_proto(self) -> Any:
        """The complete `PageLayout` message, including the oneof."""

    def join_key(self, wanted: int, num_rows: int) -> Hashable:
        """Pages of a `JoinablePageLayout` with equal keys can be read together; None if this one is better read alone.

        Args:
            wanted: rows that are read of a page of `num_rows` rows.
        """
        return None

    @abstractmethod
    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        """The path array of `rows` of the page, of length ``rows.num_rows``.

        Raises:
            CorruptFileError: the bytes are inconsistent with the layout.
        """


class JoinablePageLayout(PageLayout):
    """A layout whose pages can be decoded together."""

    @abstractmethod
    def read_run(self, layouts: Sequence[PageLayout], pages: Sequence[Page], rows: RowRanges) -> Reads[pa.Array]:
        """The path array of `rows` of several pages; rows are numbered from the first row of the first page.

        `layouts` begins with this one, and all have its key. Requests have the page index.

        Raises:
            CorruptFileError: the bytes of a page are inconsistent with its layout.
        """


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Rows of a page or file: ascending, disjoint ranges [starts[i], stops[i])."""

    starts: Int64Array
    stops: Int64Array
    _num_rows: int = field(default=-1, repr=False, compare=False)
    _numbers: Int64Array | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, start: int, stop: int) -> RowRanges:
        """One range."""
        return cls(np.array([start], np.int64), np.array([stop], np.int64), stop - start)

    @classmethod
    def of_numbers(cls, numbers: Int64Array) -> RowRanges:
        """The rows with these numbers (int64[n], ascending, distinct), adjacent ones in one range.

        >>> RowRanges.of_numbers(np.array([3, 4, 5, 9]))
        RowRanges(starts=array([3, 9]), stops=array([ 6, 10]))

        Raises:
            InvalidInputError: they do not ascend.
        """
        numbers = np.ascontiguousarray(numbers)
        ranges: Int64Array = np.empty((2, len(numbers)), np.int64)
        count = ranges_of_numbers(address_of(numbers), len(numbers), address_of(ranges))
        if count < 0:
            raise InvalidInputError("numbers of rows must ascend")
        return cls(ranges[0, :count], ranges[1, :count], len(numbers), numbers)

    @property
    def num_rows(self) -> int:
        if self._num_rows < 0:
            # Asked for at every step of a read.
            object.__setattr__(self, "_num_rows", int((self.stops - self.starts).sum()))
        return self._num_rows

    @property
    def num_ranges(self) -> int:
        """The number of ranges."""
        return len(self.starts)

    @property
    def are_apart(self) -> bool:
        """Whether no range is empty, and each begins after the end of the one before."""
        if self._numbers is not None:
            return True
        if len(self.starts) == 1:
            return int(self.starts[0]) < int(self.stops[0])
        starts, stops = np.ascontiguousarray(self.starts), np.ascontiguousarray(self.stops)
        return bool(are_apart(address_of(starts), address_of(stops), len(starts)))

    @property
    def span(self) -> tuple[int, int]:
        """Start of the first range and end of the last one. There is at least one."""
        return int(self.starts[0]), int(self.stops[-1])

    def is_all(self, num_rows: int) -> bool:
        """True if these are exactly the rows 0..num_rows."""
        return len(self.starts) == 1 and int(self.starts[0]) == 0 and int(self.stops[0]) == num_rows

    def within(self, start: int, stop: int) -> RowRanges:
        """The intersection with [start, stop), relative to `start`; without empty ranges."""
        starts, stops = self.starts, self.stops
        if len(starts) and start <= starts[0] and stops[-1] <= stop and self.are_apart:
            return RowRanges(starts - start, stops - start, self._num_rows) if start else self
        if len(starts) > _MANY_RANGES:
            # Of many rows, each of many pages has few.
            some = slice(stops.searchsorted(start, "right"), starts.searchsorted(stop))
            starts, stops = starts[some], stops[some]
        starts = np.maximum(starts, start) - start
        stops = np.minimum(stops, stop) - start
        keep = starts < stops
        return RowRanges(starts[keep], stops[keep])

    def numbers(self, places: Int64Array) -> Int64Array:
        """int64[n], the row numbers at the indices `places` of these rows, ascending."""
        return places + self.starts[0] if len(self.starts) == 1 else self.indices()[places]

    def mask(self) -> pa.BooleanArray:
        """bool[stops[-1] - starts[0]]: which rows from the first to the last one these are. There is at least one."""
        first, stop = self.span
        num_bits = stop - first
        starts, stops = np.ascontiguousarray(self.starts), np.ascontiguousarray(self.stops)
        bits = np.zeros(num_bits // 64 + 1, np.uint64)
        ranges = address_of(starts), address_of(stops), len(starts)
        if bits_of_ranges(*ranges, first, num_bits, address_of(bits)) >= 0:
            raise ValueError("ranges of rows do not ascend")
        return pa.Array.from_buffers(pa.bool_(), num_bits, [None, pa.py_buffer(bits)])

    def indices(self) -> Int64Array:
        """int64[num_rows], all row numbers, ascending."""
        if self._numbers is not None:
            return self._numbers
        if len(self.starts) == 1:
            return np.arange(self.starts[0], self.stops[0], dtype=np.int64)
        starts, stops = np.ascontiguousarray(self.starts), np.ascontiguousarray(self.stops)
        numbers: Int64Array = np.empty(self.num_rows, np.int64)
        places = address_of(numbers), len(numbers)
        if numbers_of_ranges(address_of(starts), address_of(stops), len(starts), *places) < 0:
            raise ValueError("a range of rows ends before it begins")
        return numbers


class EncodedBuffer(NamedTuple):
    """The range of a buffer in the file: `size` bytes from `position`."""

    position: int
    size: int

    def slice(self, start: int, length: int) -> FileRange:
        """`length` bytes from byte `start` of this buffer.

        Raises:
            CorruptFileError: the slice is out of bounds.
        """
        if start < 0 or length < 0 or start + length > self.size:
            raise CorruptFileError(f"bytes {start}..{start + length} are outside of a buffer of {self.size} bytes")
        return FileRange(self.position + start, length)


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page as described by the column metadata.

    Attributes:
        buffers: the page's buffers.
        num_rows: `Page.length` of the wire format (2.0: items of that column).
        first_row: `Page.priority` of the wire format.
        type_url: type of the page's encoding, such as ``"/lance.encodings21.PageLayout"``.
        message: the encoding, serialized.
    """

    buffers: tuple[EncodedBuffer, ...]
    num_rows: int
    first_row: int
    type_url: str
    message: bytes

    def moved(self, distance: int) -> EncodedPage:
        """The page with its buffers `distance` bytes later."""
        buffers = tuple([EncodedBuffer(position + distance, size) for position, size in self.buffers])
        return EncodedPage(buffers, self.num_rows, self.first_row, self.type_url, self.message)

    def locate(self, piece: BufferSlice) -> FileRange:
        """The file range of a slice of this page's buffers.

        Raises:
            CorruptFileError: no such buffer, or the slice is out of bounds.
        """
        return self.buffer(piece.buffer).slice(piece.start, piece.length)

    def buffer(self, number: int) -> EncodedBuffer:
        """A buffer of the page.

        Raises:
            CorruptFileError: no such buffer.
        """
        if not 0 <= number < len(self.buffers):
            raise CorruptFileError(f"buffer {number} is missing, the page has {len(self.buffers)}")
        return self.buffers[number]


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column of a file: its pages in row order.

    Attributes:
        index: index of the column in the file.
        pages: the pages, consecutive in row order.
        num_rows: rows of the file, the total of the pages.
        type_url: type of the column's encoding, `"/lance.encodings.ColumnEncoding"`.
        message: the encoding, serialized.
        buffers: the column's own buffers (`ColumnMetadata.buffer_offsets`).
        file_buffers: the file's global buffers.
        items: the column after it, where this one has lists of bytes and stands for texts, as the first releases of
            2.0 wrote them.
    """

    index: int
    pages: tuple[EncodedPage, ...]
    num_rows: int
    type_url: str = ""
    message: bytes = b""
    buffers: tuple[EncodedBuffer, ...] = ()
    file_buffers: tuple[EncodedBuffer, ...] = ()
    items: EncodedColumn | None = None


FieldReads: TypeAlias = Generator[list[FileRequest], list[Answer], pa.ChunkedArray]
"""Yields ranges, is sent one answer per request, returns one top-level field for the requested rows."""

FieldsReads: TypeAlias = Generator[list[FileRequest], list[Answer], list[pa.ChunkedArray]]
"""As `FieldReads`, of several fields."""


class FieldsReader(Protocol):
    """Reads some top-level fields of a file. What does not depend on the rows is done once. Thread safe.

    A field without a column in the file is null.
    """

    def __call__(self, rows: RowRanges) -> FieldsReads:
        """The values of the fields at `rows` of the file, in row order; the length of each is `rows.num_rows`.

        Raises:
            CorruptFileError: the file violates the format; `column` and `page` are set.
        """
        ...


def side_by_side(
    coroutines: Sequence[Generator[list[RequestT], list[Answer], ResultT]],
) -> Generator[list[RequestT], list[Answer], list[ResultT]]:
    """Runs coroutines in lockstep, so that the requests of one round are one batch; returns their results in order."""
    if len(coroutines) == 1:
        return [(yield from coroutines[0])]
    results: dict[int, ResultT] = {}
    waiting: list[tuple[int, Generator[list[RequestT], list[Answer], ResultT], list[RequestT]]] = []
    for number, coroutine in enumerate(coroutines):
        try:
            waiting.append((number, coroutine, next(coroutine)))
        except StopIteration as stop:
            results[number] = stop.value
    while waiting:
        buffers = yield [request for _, _, requests in waiting for request in requests]
        position = 0
        still_waiting = []
        for number, coroutine, requests in waiting:
            answers = buffers[position : position + len(requests)]
            position += len(requests)
            try:
                still_waiting.append((number, coroutine, coroutine.send(answers)))
            except StopIteration as stop:
                results[number] = stop.value
        waiting = still_waiting
    return [results[number] for number in range(len(coroutines))]
