"""A column of a 2.0 file: consecutive pages.

A page's length is in values of its column: rows for a top-level column, items for a column below a list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import EncodedColumn, EncodedPage, RowRanges, side_by_side
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
        borders: int64[pages + 1], index of the first value of each page, followed by the total.
    """

    encoded: EncodedColumn
    borders: Int64Array

    @classmethod
    def of(cls, encoded: EncodedColumn) -> Column:
        """Raises `CorruptFileError` for pages of implausible length."""
        lengths = [page.num_rows for page in encoded.pages]
        if sum(lengths) >= MAX_COUNT:
            raise CorruptFileError(f"a column of {sum(lengths)} values is impossible", column=encoded.index)
        borders = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=borders[1:])
        return cls(encoded, borders)

    @property
    def num_values(self) -> int:
        return int(self.borders[-1])

    def parts(self, ranges: RowRanges) -> list[PagePart]:
        """`ranges` of the column split by page, in order.

        Raises:
            CorruptFileError: the column is shorter than that.
        """
        if len(ranges.stops) == 0:
            return []
        if int(ranges.stops[-1]) > self.num_values:
            raise CorruptFileError(
                f"the column has {self.num_values} values where {int(ranges.stops[-1])} are needed",
                column=self.encoded.index,
            )
        first = int(np.searchsorted(self.borders, ranges.starts[0], "right")) - 1
        end = int(np.searchsorted(self.borders, ranges.stops[-1], "left"))
        parts = []
        for number in range(first, end):
            start, stop = int(self.borders[number]), int(self.borders[number + 1])
            wanted = ranges.within(start, stop)
            if len(wanted.starts):
                parts.append(PagePart(number, Selection.of(wanted, stop - start)))
        return parts

    def page(self, number: int) -> EncodedPage:
        """A page by its index."""
        return self.encoded.pages[number]

    def encoding(self, number: int) -> ArrayEncoding:
        """The encoding of a page.

        Raises:
            CorruptFileError: the page's encoding message is corrupt.
        """
        page = self.page(number)
        try:
            return parse_page(page.type_url, page.message)
        except CorruptFileError as error:
            raise CorruptFileError(error.args[0], column=self.encoded.index, page=number) from error

    def buffers(self, number: int) -> PageBuffers:
        """The buffers that the encodings of a page can refer to."""
        return PageBuffers(self.page(number).buffers, self.encoded.buffers, self.encoded.file_buffers)

    def read(self, ranges: RowRanges, arrow_type: pa.DataType) -> FileReads[list[pa.Array]]:
        """The values of `ranges`, one array for each page that overlaps them.

        Raises:
            CorruptFileError: the column is shorter, or its bytes violate the format.
        """
        arrays = yield from side_by_side([self._read_part(part, arrow_type) for part in self.parts(ranges)])
        return arrays

    def _read_part(self, part: PagePart, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        def decoded() -> FileReads[pa.Array]:
            encoding = self.encoding(part.number)
            return checked((yield from encoding.read(self.buffers(part.number), part.selection, arrow_type)))

        return self.located(decoded(), part.number)

    def located(self, reads: FileReads[ResultT], page: int) -> FileReads[ResultT]:
        """`reads`, with `page` of this column added to errors."""
        try:
            return (yield from reads)
        except CorruptFileError as error:
            error.at(column=self.encoded.index, page=page)
            raise
