"""Values of single rows of a column, copied from a file in memory by one call of a kernel.

That is possible for values of fixed width in mini-block chunks, flat or packed, and in full-zip pages of vectors, with
or without nulls. The chunks of all pages are listed once; what a chunk says about itself is checked at each read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Int64Array
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.picked_levels import LEVEL_BITS
from lance_spark.kernels.layouts.single_rows import BITS, FLAT, NO_LEVELS, PACKED, PACKED_LEVELS, ZIPPED, copy_values
from lance_spark.layouts.base import EncodedColumn, EncodedPage
from lance_spark.layouts.checked_values import PLAIN
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.mini_block.chunks import BufferOfPages, ChunkTable
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.registry import parse_page
from lance_spark.layouts.repdef import RepDefLayer

_WORDS, _DATA = 0, 1


@dataclass(frozen=True)
class SingleRows:
    """The pages and chunks of a column.

    Attributes:
        data: the file.
        data_type: of the values.
        width: bytes of a value; 0 for bits.
        pages, chunks: the tables of `kernels.layouts.single_rows.copy_values`.
    """

    data: pa.Buffer
    data_type: pa.DataType
    width: int
    pages: Int64Array
    chunks: Int64Array

    @classmethod
    def of(cls, column: EncodedColumn, data_type: pa.DataType, data: pa.Buffer) -> SingleRows | None:
        """A column of the file `data`, which is a top-level field; None if its values are of other kinds.

        A column with a page that contradicts the format, or is of an unknown kind, is left to the general way, too: it
        says which page that is, and reads the rows of the others.
        """
        width = _width(data_type)
        pages = [page for page in column.pages if page.num_rows]
        if width is None or not pages or not all(_is_inside(page, data.size) for page in pages):
            return None
        is_list = pa.types.is_fixed_size_list(data_type)
        try:
            found = _zipped(pages, data_type.list_size, width) if is_list else _mini_blocks(pages, width, data)
        except (CorruptFileError, UnsupportedFeatureError):
            return None
        if found is None or int(found[1][3, -1]) != column.num_rows:
            return None
        return cls(data, data_type, width, *found)

    @property
    def num_bytes(self) -> int:
        """What the tables take in memory."""
        return self.pages.nbytes + self.chunks.nbytes

    def taken(
        self, parts: Sequence[tuple[SingleRows, Int64Array, Int64Array | None]], num_rows: int
    ) -> pa.Array | None:
        """The values of some rows; None if the pages contradict themselves.

        Args:
            parts: columns of the same type (this one first), the rows of each in any order (int64[n]), and their places
                in the result (int64[n]; None for their order). Each place is that of one row.
            num_rows: rows of all parts.
        """
        num_bits = (num_rows + 7) // 8
        values = np.empty(num_rows * self.width, np.uint8) if self.width else np.zeros(num_bits, np.uint8)
        validity = np.zeros(num_bits, np.uint8)
        target, bits = address_of(values), address_of(validity)
        num_nulls = 0
        for column, rows, places in parts:
            nulls = copy_values(
                column.data.address, *column._tables, address_of(rows), 0 if places is None else address_of(places),
                len(rows), self.width, target, bits,
            )  # fmt: skip
            if nulls < 0:
                return None
            num_nulls += nulls
        valid = pa.py_buffer(validity) if num_nulls else None
        data, dtype = pa.py_buffer(values), self.data_type
        if not pa.types.is_fixed_size_list(dtype):
            return pa.Array.from_buffers(dtype, num_rows, [valid, data], num_nulls)
        items = pa.Array.from_buffers(dtype.value_type, num_rows * dtype.list_size, [None, data], 0)
        return pa.Array.from_buffers(dtype, num_rows, [valid], num_nulls, children=[items])

    @property
    def _tables(self) -> tuple[int, int, int, int]:
        return address_of(self.pages), self.pages.shape[1], address_of(self.chunks), self.chunks.shape[1]


def control_bytes(page: EncodedPage, dimension: int, width: int) -> int | None:
    """Bytes before each vector of a full-zip page; None if its vectors are at no computable places.

    Args:
        dimension: values of a vector.
        width: bytes of a vector.

    Raises:
        CorruptFileError: the page cannot be parsed.
    """
    layout = parse_page(page.type_url, page.message)
    if not page.buffers or not page.num_rows:
        return None
    if not isinstance(layout, FullZipLayout) or layout.bits_rep or any(layer.is_list for layer in layout.layers):
        return None
    values = layout.value_compression
    if not isinstance(values, FixedSizeList) or values.has_validity or not isinstance(values.values, Flat):
        return None
    fits = values.items_per_value == dimension and values.values.bits_per_value * dimension == 8 * width
    fits &= layout.bits_per_value == 8 * width and layout.num_items == page.num_rows
    stride = layout.control_bytes + width
    return layout.control_bytes if fits and page.buffers[0].size == page.num_rows * stride else None


def can_be_copied(data_type: pa.DataType) -> bool:
    """Whether values of a type are of fixed width and all valid; then `SingleRows.of` may find them."""
    return _width(data_type) is not None


def _width(data_type: pa.DataType) -> int | None:
    """Bytes of a value, 0 for bits; None for types whose values are not all valid, or not of fixed width."""
    if pa.types.is_fixed_size_list(data_type):
        item = _width(data_type.value_type) if not pa.types.is_nested(data_type.value_type) else None
        return item * data_type.list_size if item and data_type.list_size else None
    return data_type.bit_width // 8 if data_type.id in PLAIN else None


def _is_inside(page: EncodedPage, size: int) -> bool:
    return all(start >= 0 and length >= 0 and start + length <= size for start, length in page.buffers)


def _zipped(pages: Sequence[EncodedPage], dimension: int, width: int) -> tuple[Int64Array, Int64Array] | None:
    """The tables of full-zip pages of vectors of `width` bytes."""
    controls = [control_bytes(page, dimension, width) for page in pages]
    known = [control for control in controls if control is not None]
    layouts = [parse_page(page.type_url, page.message) for page in pages]
    # Of the levels of a vector alone, 1 is a null; a struct around it has others.
    if len(known) < len(controls) or any(len(getattr(layout, "layers", ())) != 1 for layout in layouts):
        return None
    count = len(pages)
    of_pages = np.array([[ZIPPED] * count, known, [NO_LEVELS] * count], np.int64)
    starts, sizes = zip(*[page.buffers[0] for page in pages], strict=True)
    ends = np.cumsum([page.num_rows for page in pages], dtype=np.int64)
    return of_pages, np.array([range(count), starts, sizes, ends], np.int64)


def _mini_blocks(pages: Sequence[EncodedPage], width: int, data: pa.Buffer) -> tuple[Int64Array, Int64Array] | None:
    """The tables of mini-block pages of values of `width` bytes."""
    layouts = [parse_page(page.type_url, page.message) for page in pages]
    forms = [
        _form(layout, width) if len(page.buffers) == 2 else None for layout, page in zip(layouts, pages, strict=True)
    ]
    known = [form for form in forms if form is not None]
    blocks = [layout for layout in layouts if isinstance(layout, MiniBlockLayout)]
    if len(known) < len(forms) or len({form[1] for form in known}) > 1:
        return None
    if [layout.num_items for layout in blocks] != [page.num_rows for page in pages]:
        return None
    words = [page.buffers[_WORDS] for page in pages]
    around = BufferOfPages([data.address + start for start, _ in words], [size for _, size in words], data)
    sizes = [page.buffers[_DATA].size for page in pages]
    table = ChunkTable.parse(
        around, sizes, [layout.num_items for layout in blocks], large_chunks=blocks[0].has_large_chunk
    )
    starts = np.array([page.buffers[_DATA].position for page in pages], np.int64)
    chunks = np.array([table.pages, table.starts + starts[table.pages], table.sizes, table.ends], np.int64)
    return np.ascontiguousarray(np.array(known, np.int64).T), chunks


def _form(layout: object, width: int) -> tuple[int, int, int] | None:
    """(kind, bytes of sizes, bits of a level) of a page; None if its values cannot be copied one by one."""
    if not isinstance(layout, MiniBlockLayout) or layout.rep_compression or layout.dictionary or len(layout.layers) > 1:
        return None
    kind, bits = _kind(layout.value_compression, width), _level_bits(layout.def_compression)
    may_be_null = layout.layers[0] is RepDefLayer.NULLABLE_ITEM
    if layout.layers[0].is_list or kind is None or bits is None or (bits != NO_LEVELS and not may_be_null):
        return None
    return kind, 4 if layout.has_large_chunk else 2, bits


def _kind(encoding: MiniBlockEncoding, width: int) -> int | None:
    if isinstance(encoding, Flat):
        return (FLAT if width else BITS) if encoding.bits_per_value == (8 * width or 1) else None
    packs = isinstance(encoding, InlineBitpacking) and encoding.uncompressed_bits_per_value == 8 * width
    return PACKED if packs else None


def _level_bits(encoding: BlockEncoding | None) -> int | None:
    if encoding is None:
        return NO_LEVELS
    if isinstance(encoding, OutOfLineBitpacking) and encoding.uncompressed_bits_per_value == LEVEL_BITS:
        return encoding.bit_width
    packs = isinstance(encoding, InlineBitpacking) and encoding.uncompressed_bits_per_value == LEVEL_BITS
    return PACKED_LEVELS if packs else None
