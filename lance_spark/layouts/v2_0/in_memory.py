"""Flat values of 2.0 files, straight from a file in memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.in_memory import take_from_flat_pages
from lance_spark.layouts.base import EncodedBuffer, RowRanges
from lance_spark.layouts.in_memory.columns import MAX_PAGES, InMemoryColumn
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.v2_0.base import ArrayEncoding, PageBuffers
from lance_spark.layouts.v2_0.column import Column
from lance_spark.layouts.v2_0.fixed_size_list import FixedSizeList
from lance_spark.layouts.v2_0.flat import Flat
from lance_spark.layouts.v2_0.nullable import NoNull, Nullable, SomeNull

_ALIGNMENT = 8
_NOTHING = EncodedBuffer(0, 0)


class FlatColumn(InMemoryColumn):
    """See `of`."""

    @classmethod
    def of(cls, data_type: pa.DataType, column: Column) -> FlatColumn | None:
        """A column of `data_type`; None if a page of it is not flat values."""
        numbers = range(len(column.encoded.pages))
        if not 1 <= len(numbers) <= MAX_PAGES:
            return None
        try:
            found = [_page(data_type, column.encoding(number), column.buffers(number)) for number in numbers]
        except (CorruptFileError, UnsupportedFeatureError):
            # Values of other pages can still be read.
            return None
        pages = [page for page in found if page is not None]
        if len(pages) < len(found) or len({values for values, *_ in pages}) != 1:
            return None
        counts = [stop - start for start, stop in pairwise(column.borders)]
        table = [
            (*held, *valid, count, int(valid is not _NOTHING), 0)
            for (_, held, valid), count in zip(pages, counts, strict=True)
        ]
        has_nulls = any(valid is not _NOTHING for *_, valid in pages)
        return cls(pages[0][0], np.array(table, np.int64).T.copy(), has_nulls=has_nulls)

    def _whole(self, data: pa.Buffer) -> tuple[list[pa.Array], int] | None:
        """Views of the file."""
        arrays, num_read = [], 0
        for start, size, valid_start, valid_size, count, has_validity, _ in self._pages.T.tolist():
            num_bytes, num_valid = (count * self._values.value_bits + 7) // 8, (count + 7) // 8
            is_inside = 0 <= start <= data.size - size and num_bytes <= size
            if not is_inside or (data.address + start) % _ALIGNMENT:
                return None
            validity = None
            if has_validity:
                if not (0 <= valid_start <= data.size - valid_size and num_valid <= valid_size):
                    return None
                validity = data.slice(valid_start, num_valid)
                num_read += num_valid
            arrays.append(self._values.array(data.slice(start, num_bytes), count, validity))
            num_read += num_bytes
        return arrays, num_read

    def _taken(self, data: pa.Buffer, rows: RowRanges, num_rows: int) -> tuple[list[pa.Array], int] | None:
        starts, stops = rows.starts, rows.stops
        if not (starts.flags.c_contiguous and stops.flags.c_contiguous):
            starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
        target = pa.allocate_buffer((num_rows * self._values.value_bits + 7) // 8)
        validity = pa.allocate_buffer((num_rows + 7) // 8) if self._has_nulls else None
        num_read = take_from_flat_pages(
            data.address, data.size, *self._page_table, address_of(starts), address_of(stops), len(starts), num_rows,
            self._values.value_bits, target.address, 0 if validity is None else validity.address,
        )  # fmt: skip
        return None if num_read < 0 else ([self._values.array(target, num_rows, validity)], num_read)


def _page(
    data_type: pa.DataType, encoding: ArrayEncoding, buffers: PageBuffers
) -> tuple[FixedWidth, EncodedBuffer, EncodedBuffer] | None:
    """What a page holds, its buffer, and that of the bits of valid values or `_NOTHING`."""
    valid = _NOTHING
    nullability = encoding.nullability if isinstance(encoding, Nullable) else NoNull(encoding)
    if not isinstance(nullability, NoNull | SomeNull):
        return None
    if isinstance(nullability, SomeNull):
        validity = nullability.validity
        if not isinstance(validity, Flat) or validity.width != 1 or validity.scheme != "none":
            return None
        valid = validity.buffer.locate(buffers)
    lists = nullability.values
    flat, items = (lists.items, lists.dimension) if isinstance(lists, FixedSizeList) else (lists, 1)
    if isinstance(flat, Nullable) and isinstance(flat.nullability, NoNull):
        flat = flat.nullability.values
    if not isinstance(flat, Flat) or flat.scheme != "none":
        return None
    values = FixedWidth.of(data_type, flat.width, items)
    return None if values is None else (values, flat.buffer.locate(buffers), valid)
