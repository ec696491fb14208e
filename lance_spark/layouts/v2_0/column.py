"""A column of a 2.0 file: consecutive pages.

A page's length is in values of its column: rows for a top-level column, items for a column below a list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.touched_pages import cut_at_pages
from lance_spark.layouts.arrow_errors import DECODING_ERRORS, raise_corrupt
from lance_spark.layouts.base import EncodedColumn, RowRanges, side_by_side
from lance_spark.layouts.checked_values import checked
from lance_spark.layouts.v2_0.base import (
    MAX_COUNT,
    ArrayEncoding,
    FileReads,
    PageBuffers,
    PagesSelection,
    ResultT,
    Selection,
)
from lance_spark.layouts.v2_0.registry import parse_page

_SMALL_PART_BYTES = 64 * 1024
"""Pages of which more is wanted are read alone: as views of the file instead of copies."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """A selection of values of one page.

    Attributes:
        number: the page's index in the column.
        selection: the values, relative to the page.
    """

    number: int
    selection: Selection


@dataclass(frozen=True, slots=True)
class Column:
    """The pages of a column and their positions.

    Attributes:
        encoded: the column as described by its metadata.
        borders: index of the first value of each page, followed by the total.
    """

    encoded: EncodedColumn
    borders: list[int]

    @classmethod
    def of(cls, encoded: EncodedColumn) -> Column:
        """Raises `CorruptFileError` for pages of implausible length."""
        borders = list(accumulate([page.num_rows for page in encoded.pages], initial=0))
        if borders[-1] >= MAX_COUNT:
            raise CorruptFileError(f"a column of {borders[-1]} values is impossible", column=encoded.index)
        return cls(encoded, borders)

    @property
    def num_values(self) -> int:
        return self.borders[-1]

    def parts(self, ranges: RowRanges) -> list[PagePart]:
        """`ranges` of the column split by page, in order.

        Raises:
            CorruptFileError: the column is shorter than that.
        """
        return self._parts(ranges)[0]

    def _parts(self, ranges: RowRanges) -> tuple[list[PagePart], RowRanges]:
        """`parts`, and the ranges of all of them, each from the first value of its page."""
        if len(ranges.stops) == 0:
            return [], ranges
        first_value, end_value = ranges.span
        if end_value > self.num_values:
            raise CorruptFileError(
                f"the column has {self.num_values} values where {end_value} are needed", column=self.encoded.index
            )
        first = bisect_right(self.borders, first_value) - 1
        if end_value <= self.borders[first + 1]:
            start, stop = self.borders[first], self.borders[first + 1]
            within = ranges.within(start, stop)
            return [PagePart(first, Selection.of(within, stop - start))], within
        starts, stops = np.ascontiguousarray(ranges.starts), np.ascontiguousarray(ranges.stops)
        borders = np.array(self.borders, np.int64)
        table: Int64Array = np.empty((3, len(starts) + len(self.encoded.pages)), np.int64)
        count = cut_at_pages(
            address_of(starts), address_of(stops), len(starts), address_of(borders), len(borders) - 1,
            address_of(table), table.shape[1],
        )  # fmt: skip
        if count < 0:
            raise InvalidInputError("ranges of values must ascend, and none may be empty")
        table = table[:, :count]
        opens = np.flatnonzero(np.diff(table[2], prepend=-1))
        num_values = np.add.reduceat(table[1] - table[0], opens)
        parts = []
        pages = zip(table[2, opens].tolist(), pairwise([*opens.tolist(), count]), num_values.tolist(), strict=True)
        for number, places, wanted in pages:
            some = RowRanges(table[0, slice(*places)], table[1, slice(*places)], wanted)
            is_all = wanted == self.borders[number + 1] - self.borders[number] and some.num_ranges == 1
            parts.append(PagePart(number, Selection(some, wanted, is_all)))
        return parts, RowRanges(table[0], table[1])

    def encoding(self, number: int) -> ArrayEncoding:
        """The encoding of a page.

        Raises:
            CorruptFileError: the page's encoding message is corrupt.
        """
        page = self.encoded.pages[number]
        try:
            return parse_page(page.type_url, page.message)
        except CorruptFileError as error:
            raise CorruptFileError(error.args[0], column=self.encoded.index, page=number) from error

    def buffers(self, number: int) -> PageBuffers:
        """The buffers that the encodings of a page can refer to."""
        return PageBuffers(self.encoded.pages[number].buffers, self.encoded.buffers, self.encoded.file_buffers)

    def read(self, ranges: RowRanges, arrow_type: pa.DataType) -> FileReads[list[pa.Array]]:
        """The values of `ranges`, one array for each page that overlaps them, or for several that are read together.

        Raises:
            CorruptFileError: the column is shorter, or its bytes violate the format.
        """
        parts, within = self._parts(ranges)
        if len(parts) == 1:
            return [(yield from self._read_part(parts[0], arrow_type))]
        reads = []
        first = 0
        for run in self._runs(parts, arrow_type):
            num_ranges = sum([len(part.selection.ranges.starts) for part in run])
            wanted = RowRanges(within.starts[first : first + num_ranges], within.stops[first : first + num_ranges])
            reads.append(self._read_run(run, wanted, arrow_type))
            first += num_ranges
        lists = yield from side_by_side(reads)
        return [array for arrays in lists for array in arrays]

    def _runs(self, parts: Sequence[PagePart], arrow_type: pa.DataType) -> Iterator[list[PagePart]]:
        """Consecutive parts that are read together."""
        run: list[PagePart] = []
        common: Hashable = None
        for part in parts:
            key = self.encoding(part.number).join_key(arrow_type) if self._is_small(part) else None
            if run and (key is None or key != common):
                yield run
                run = []
            run.append(part)
            common = key
        if run:
            yield run

    def _is_small(self, part: PagePart) -> bool:
        page = self.encoded.pages[part.number]
        num_bytes = sum([size for _, size in page.buffers])
        return num_bytes * part.selection.num_values <= _SMALL_PART_BYTES * page.num_rows

    def _read_run(
        self, run: Sequence[PagePart], ranges: RowRanges, arrow_type: pa.DataType
    ) -> FileReads[list[pa.Array]]:
        if len(run) > 1:
            try:
                return [(yield from self._read_together(run, ranges, arrow_type))]
            except (*DECODING_ERRORS, InvalidInputError):
                # One by one, so that the error names its page; or they are only too large to be read together.
                pass
        arrays = yield from side_by_side([self._read_part(part, arrow_type) for part in run])
        return arrays

    def _read_together(
        self, run: Sequence[PagePart], ranges: RowRanges, arrow_type: pa.DataType
    ) -> FileReads[pa.Array]:
        encodings = [self.encoding(part.number) for part in run]
        num_ranges = np.array([len(part.selection.ranges.starts) for part in run], np.int64)
        pages = np.repeat(np.arange(len(run)), num_ranges)
        selection = PagesSelection(ranges, pages, num_ranges, sum([part.selection.num_values for part in run]))
        buffers = [self.buffers(part.number) for part in run]
        return checked((yield from encodings[0].read_pages(encodings, buffers, selection, arrow_type)))

    def _read_part(self, part: PagePart, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        try:
            reads = self.encoding(part.number).read(self.buffers(part.number), part.selection, arrow_type)
            return checked((yield from reads))
        except DECODING_ERRORS as error:
            raise_corrupt(error, column=self.encoded.index, page=part.number)

    def located(self, reads: FileReads[ResultT], page: int) -> FileReads[ResultT]:
        """`reads`, with `page` of this column added to errors."""
        try:
            return (yield from reads)
        except DECODING_ERRORS as error:
            raise_corrupt(error, column=self.encoded.index, page=page)
