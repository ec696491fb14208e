"""Flat values of 2.0 files, straight from a file in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.in_memory.columns import MAX_PAGES, InMemoryColumn
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.single_rows import BarePage, SingleRows
from lance_spark.layouts.v2_0.base import ArrayEncoding, PageBuffers
from lance_spark.layouts.v2_0.column import Column
from lance_spark.layouts.v2_0.fixed_size_list import FixedSizeList
from lance_spark.layouts.v2_0.flat import Flat
from lance_spark.layouts.v2_0.nullable import AllNull, NoNull, Nullable, SomeNull

_ALIGNMENT = 8


class FlatColumn(InMemoryColumn):
    """See `of`."""

    def __init__(self, values: FixedWidth, pages: Sequence[BarePage]) -> None:
        super().__init__(values, sum(page.num_rows for page in pages))
        self._pages = pages

    @classmethod
    def of(cls, data_type: pa.DataType, column: Column) -> FlatColumn | None:
        """A column of `data_type`; None if a page of it is not flat values."""
        values = FixedWidth.of_type(data_type)
        numbers = range(len(column.encoded.pages))
        if values is None or not 1 <= len(numbers) <= MAX_PAGES:
            return None
        counts = [stop - start for start, stop in pairwise(column.borders)]
        try:
            found = [
                _page(values, column.encoding(number), column.buffers(number), counts[number]) for number in numbers
            ]
        except (CorruptFileError, UnsupportedFeatureError):
            # Values of other pages can still be read.
            return None
        pages = [page for page in found if page is not None]
        return cls(values, pages) if len(pages) == len(found) else None

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
    if isinstance(flat, Nullable) and isinstance(flat.nullability, NoNull):
        flat = flat.nullability.values
    if not isinstance(flat, Flat) or flat.scheme != "none" or (flat.width, items) != (values.bits, values.items):
        return None
    return BarePage(flat.buffer.locate(buffers), valid, num_rows)
