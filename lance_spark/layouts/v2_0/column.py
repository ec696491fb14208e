"""A column of a 2.0 file: consecutive pages.

A page's length is in values of its column: rows for a top-level column, items for a column below a list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import EncodedColumn, RowRanges, side_by_side
from lance_spark.layouts.checked_values import checked
from lance_spark.layouts.v2_0.base import MAX_COUNT, ArrayEncoding, FileReads, PageBuffers, ResultT, Selection
from lance_spark.layouts.v2_0.registry import parse_page


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
        if len(ranges.stops) == 0:
            return []
        first_value, end_value = ranges.span
        if end_value > self.num_values:
            raise CorruptFileError(
                f"the column has {self.num_values} values where {end_value} are needed", column=self.encoded.index
            )
        parts = []
        for number in range(bisect_right(self.borders, first_value) - 1, bisect_left(self.borders, end_value)):
            start, stop = self.borders[number], self.borders[number + 1]
            wanted = ranges.within(start, stop)
            if len(wanted.starts):
                parts.append(PagePart(number, Selection.of(wanted, stop - start)))
        return parts

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
        """The values of `ranges`, one array for each page that overlaps them.

        Raises:
            CorruptFileError: the column is shorter, or its bytes violate the format.
        """
        arrays = yield from side_by_side([self._read_part(part, arrow_type) for part in self.parts(ranges)])
        return arrays

    def _read_part(self, part: PagePart, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        try:
            reads = self.encoding(part.number).read(self.buffers(part.number), part.selection, arrow_type)
            return checked((yield from reads))
        except CorruptFileError as error:
            error.at(column=self.encoded.index, page=part.number)
            raise

    def located(self, reads: FileReads[ResultT], page: int) -> FileReads[ResultT]:
        """`reads`, with `page` of this column added to errors."""
        try:
            return (yield from reads)
        except CorruptFileError as error:
            error.at(column=self.encoded.index, page=page)
            raise
