"""Columns of numbers, or of fixed-size lists of them, that are copied straight from a mapped file.

The file reader decodes the chunks of a page, picks rows and joins pages: two or three copies, of which the rows of a
partition are one more. Values without nulls that pages have as they are (`Flat`) need only one, packed numbers two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import Chunks, Int64Array
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.aligned import line_aligned
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.chunk_rows import copy_rows
from lance_spark.layouts.base import EncodedPage, RowRanges
from lance_spark.layouts.mini_block.chunks import (
    BufferOfPages,
    ChunkParts,
    ChunkStarts,
    ChunkTable,
    touched_by_values,
)
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.prepared.forms import control_bytes
from lance_spark.layouts.registry import parse_page
from lance_spark.layouts.repdef import RepDefLayer
from lance_spark.schema.number_types import numpy_type

_WORDS, _DATA = 0, 1
"""The buffers of a page."""


class _Pieces(NamedTuple):
    """Values that lie back to back, in the order of the rows.

    Attributes:
        addresses, firsts, counts: int64[n]: of each piece where it is, its first row, and how many rows it has.
        kept: what the addresses lead to.
    """

    addresses: Int64Array
    firsts: Int64Array
    counts: Int64Array
    kept: list[pa.Buffer]


@dataclass(frozen=True)
class ChunkedColumn:
    """A column without nulls.

    Attributes:
        pages: those of the column.
        ends: int64[p]: rows up to the end of each.
        dtype: of its numbers.
        width: numbers of a value; None if a value is one number.
    """

    pages: Sequence[EncodedPage]
    ends: Int64Array
    dtype: np.dtype[Any]
    width: int | None

    @classmethod
    def of(cls, file: IndexFile, name: str, data_type: pa.DataType) -> ChunkedColumn | None:
        """A column of a file; None if it has another type, or not as many rows as the file.

        Raises:
            CorruptFileError: the metadata contradicts the format, or there is no such column.
        """
        pages = file.encoded_pages(name)
        lengths = [page.num_rows for page in pages]
        if not pages or sum(lengths) != file.num_rows or file.type_of(name) != data_type:
            return None
        is_list = pa.types.is_fixed_size_list(data_type)
        dtype = numpy_type(data_type.value_type if is_list else data_type)
        return cls(pages, np.cumsum(lengths, dtype=np.int64), dtype, data_type.list_size if is_list else None)

    def read(self, memory: pa.Buffer, rows: RowRanges) -> list[npt.NDArray[Any]] | None:
        """[n] or [n, width] for each of some ranges of rows of the file; None if a page is of another kind.

        Args:
            memory: the file.
            rows: no range is empty.

        Raises:
            CorruptFileError: a page contradicts the format.
        """
        touched, runs = self._touched(rows)
        pages = [self.pages[number] for number in touched.tolist()]
        found = self._of_large_values(pages, memory) or self._of_chunks(pages, memory, runs)
        return None if found is None else self._copied(found, runs)

    def _of_large_values(self, pages: Sequence[EncodedPage], memory: pa.Buffer) -> _Pieces | None:
        """A piece for each page, if all of them have large values back to back."""
        if any(control_bytes(page, self.width or 1, self.row_bytes) != 0 for page in pages):
            return None
        lengths = np.array([page.num_rows for page in pages], np.int64)
        starts = np.array([page.buffers[0].position for page in pages], np.int64)
        return _Pieces(memory.address + starts, np.cumsum(lengths) - lengths, lengths, [memory])

    def _of_chunks(self, pages: Sequence[EncodedPage], memory: pa.Buffer, rows: RowRanges) -> _Pieces | None:
        """A piece for each chunk with any of `rows`; None if a page has no chunks, or chunks of other encodings."""
        layouts = [self._layout(page) for page in pages]
        known = [layout for layout in layouts if layout is not None]
        if len(known) < len(layouts) or len({layout.has_large_chunk for layout in known}) != 1:
            return None
        large = known[0].has_large_chunk
        words = [memory.slice(*page.buffers[_WORDS]) for page in pages]
        sizes, num_items = [page.buffers[_DATA].size for page in pages], [layout.num_items for layout in known]
        table = ChunkTable.parse(BufferOfPages.of(words), sizes, num_items, large_chunks=large)
        chosen = touched_by_values(table.ends, rows)
        of_page, counts = table.pages[chosen], table.num_values[chosen]
        bases = np.array([page.buffers[_DATA].position for page in pages], np.int64)
        starts = ChunkStarts(memory, bases, of_page, table.starts[chosen])
        parts = ChunkParts.locate(
            starts, table.sizes[chosen], counts, num_level_parts=0, num_value_parts=1, large_chunks=large
        )
        (values,) = parts.values
        addresses, kept = memory.address + values.starts, [memory]
        is_flat = np.array([not isinstance(layout.value_compression, InlineBitpacking) for layout in known])[of_page]
        if bool((values.sizes < counts * self.row_bytes)[is_flat].any()):
            raise CorruptFileError(f"a chunk is too short for its values of {self.row_bytes} bytes")
        if not is_flat.all():
            packed = Chunks.located(memory, *[array[~is_flat] for array in (values.starts, values.sizes, counts)])
            block = InlineBitpacking(8 * self.row_bytes).decode_blocks(packed)
            ends = np.cumsum(packed.num_values)
            addresses[~is_flat] = block.data.address + (ends - packed.num_values) * self.row_bytes
            kept.append(block.data)
        return _Pieces(addresses, table.first_values[chosen], counts, kept)

    @property
    def row_bytes(self) -> int:
        """Bytes of a value."""
        return self.dtype.itemsize * (self.width or 1)

    def _touched(self, rows: RowRanges) -> tuple[Int64Array, RowRanges]:
        """(the pages with any of `rows`; the rows, numbered as if the file had these pages only)."""
        first, last = self.ends.searchsorted(rows.starts, "right"), self.ends.searchsorted(rows.stops)
        changes = np.zeros(len(self.ends) + 1, np.int64)
        np.add.at(changes, first, 1)
        np.add.at(changes, last + 1, -1)
        lengths = np.diff(self.ends, prepend=0)
        is_touched = (changes.cumsum()[:-1] > 0) & (lengths > 0)
        left_out = np.cumsum(np.where(is_touched, 0, lengths))[first]
        return is_touched.nonzero()[0], RowRanges(rows.starts - left_out, rows.stops - left_out)

    def _layout(self, page: EncodedPage) -> MiniBlockLayout | None:
        """The layout of a page whose chunks have the values as they are; None of others."""
        layout = parse_page(page.type_url, page.message)
        if not isinstance(layout, MiniBlockLayout) or layout.layers != (RepDefLayer.ALL_VALID_ITEM,):
            return None
        if layout.rep_compression or layout.def_compression or layout.dictionary or len(page.buffers) <= _DATA:
            return None
        values: Any = layout.value_compression
        if self.width is not None:
            if not isinstance(values, FixedSizeList) or values.has_validity or values.items_per_value != self.width:
                return None
            values = values.values
        bits = 8 * self.dtype.itemsize
        fits = isinstance(values, Flat) and values.bits_per_value == bits
        if self.width is None and isinstance(values, InlineBitpacking):
            fits = values.uncompressed_bits_per_value == bits
        return layout if fits and layout.num_items == page.num_rows else None

    def _copied(self, pieces: _Pieces, rows: RowRanges) -> list[npt.NDArray[Any]]:
        lengths = (rows.stops - rows.starts).tolist()
        found = [self._room(length) for length in lengths]
        targets = np.array([address_of(array) for array in found], np.int64)
        tables = [np.ascontiguousarray(table) for table in (*pieces[:3], rows.starts, rows.stops, targets)]
        starts, firsts, counts, *ranges, room = map(address_of, tables)
        status = copy_rows(starts, firsts, counts, len(pieces.firsts), self.row_bytes, *ranges, len(found), room)
        if status:
            raise CorruptFileError("the chunks of a page do not have all of its rows")
        return found

    def _room(self, num_rows: int) -> npt.NDArray[Any]:
        if self.width is None:
            return np.empty(num_rows, self.dtype)
        return line_aligned((num_rows, self.width), self.dtype)
