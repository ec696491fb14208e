"""Values of single rows of a column, copied from a file in memory by one call of a kernel.

That is possible for values of fixed width in mini-block chunks, flat, packed or in runs, in full-zip pages of vectors,
in flat pages of version 2.0, with or without nulls, and in pages of one value or of nulls only. The chunks of all pages
are listed once; what a chunk says about itself is checked at each read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.base import MiniBlockEncoding
from lance_spark.encodings.blocks import Int64Array
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.rle import Rle
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.bitpack import BLOCK_VALUES
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.single_rows import (
    BARE,
    BITS,
    CONSTANT,
    FLAT,
    NO_LEVELS,
    NO_VALIDITY,
    NULLS,
    PACKED,
    RUNS,
    ZIPPED,
    copy_range,
    copy_values,
)
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, EncodedPage, PageLayout
from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.page_tables import Form, form_of_page, known_forms, tables_of
from lance_spark.layouts.leaf.values import EMPTY
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.registry import parse_page
from lance_spark.layouts.repdef import RepDefLayer

_WORD_SIZES = (1, 2, 4, 8)
_BOOLEANS = (b"\x00", b"\x01")
"""What the one value of a page can be."""

_MAX_NULL_BITS = 1 << 17
"""Of a null without bytes in the file: room for a few thousand of them is allocated."""

_DENSE_SHARE = 1 / 2
"""If as many of the rows between two are wanted, all of them are unpacked to compare those."""

_LONG_RUN = 1024
"""From this number of rows side by side on, chunks are unpacked as a whole."""


@dataclass(frozen=True)
class SingleRows:
    """The pages and chunks of a column.

    Attributes:
        values: what it holds.
        file_size: of the file, in bytes.
        pages, chunks: the tables of `kernels.layouts.single_rows.copy_values`.
    """

    values: FixedWidth
    file_size: int
    pages: Int64Array
    chunks: Int64Array

    @classmethod
    def of(cls, column: EncodedColumn, data_type: pa.DataType, data: pa.Buffer) -> SingleRows | None:
        """A column of the file `data`, which is a top-level field; None if its values are of other kinds.

        A column with a page that contradicts the format, or is of an unknown kind, is left to the general way, too: it
        says which page that is, and reads the rows of the others.
        """
        values = FixedWidth.of_type(data_type)
        pages = [page for page in column.pages if page.num_rows]
        if values is None or not pages:
            return None
        try:
            layouts = [parse_page(page.type_url, page.message) for page in pages]
            is_zipped = isinstance(layouts[0], FullZipLayout) and pa.types.is_fixed_size_list(data_type)
            forms = _zipped_forms(values, pages, layouts) if is_zipped else forms_of_pages(values, pages, layouts)
            tables = None if forms is None else tables_of(pages, forms, data)
        except (CorruptFileError, UnsupportedFeatureError):
            return None
        if tables is None or int(tables.chunks[3, -1]) != column.num_rows:
            return None
        return cls(values, data.size, *tables)

    @classmethod
    def of_mini_blocks(
        cls, values: FixedWidth, pages: Sequence[EncodedPage], layouts: Sequence[PageLayout], data: pa.Buffer
    ) -> SingleRows | None:
        """A column of mini-block pages and pages of one value in the file `data`; None if one is of another kind.

        Raises:
            CorruptFileError: a page contradicts the format.
        """
        forms = forms_of_pages(values, pages, layouts)
        return None if forms is None else cls.of_forms(values, pages, forms, data)

    @classmethod
    def of_forms(
        cls, values: FixedWidth, pages: Sequence[EncodedPage], forms: Sequence[Form], data: pa.Buffer
    ) -> SingleRows | None:
        """A column of pages with these forms, see `forms_of_pages`; None if one is not inside of the file `data`.

        Raises:
            CorruptFileError: a page contradicts the format.
        """
        tables = tables_of(pages, forms, data)
        return None if tables is None else cls(values, data.size, *tables)

    @classmethod
    def of_bare_pages(cls, values: FixedWidth, pages: Sequence[BarePage], data: pa.Buffer) -> SingleRows | None:
        """A column of such pages of the file `data`; None if one of them is not inside of it."""
        if not all(page.is_inside(values, data.size) for page in pages):
            return None
        kinds = [NULLS if page.values is None else BARE for page in pages]
        valid = [NO_VALIDITY if page.validity is None else page.validity.position for page in pages]
        of_pages = np.array([kinds, valid, [NO_LEVELS] * len(pages)], np.int64)
        starts, sizes = zip(*[page.values or (0, 0) for page in pages], strict=True)
        ends = np.cumsum([page.num_rows for page in pages], dtype=np.int64)
        return cls(values, data.size, of_pages, np.array([range(len(pages)), starts, sizes, ends], np.int64))

    @classmethod
    def of_nulls(cls, data_type: pa.DataType, num_rows: int) -> SingleRows | None:
        """A column that its file does not have; None if values of the type are of other kinds."""
        values = FixedWidth.of_type(data_type)
        return None if values is None else cls.of_bare_pages(values, [BarePage(None, None, num_rows)], EMPTY)

    @property
    def num_bytes(self) -> int:
        """Memory of the tables, in bytes."""
        return self.pages.nbytes + self.chunks.nbytes

    @property
    def value_bits(self) -> int:
        """The bits of a value."""
        return self.values.value_bits

    def taken(self, parts: Sequence[RowsOfColumn], num_rows: int) -> pa.Array | None:
        """The values of some rows; None if the pages contradict themselves, or there is no such row.

        Args:
            parts: rows of columns of the same type, this one first.
            num_rows: rows of all parts.
        """
        run = self._run(parts, num_rows)
        if run is not None:
            return run
        copied = self.copied(parts, num_rows)
        try:
            return None if copied is None else self.values.array(copied[0], num_rows, copied[1])
        except CorruptFileError:
            return None

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """`taken` of this column alone."""
        return self.taken([RowsOfColumn(self, data, rows)], len(rows))

    def _run(self, parts: Sequence[RowsOfColumn], num_rows: int) -> pa.Array | None:
        """`taken`, if the rows lie side by side and are many; None if not, or if they cannot be copied at once."""
        column, data, rows, places = parts[0]
        if num_rows < _LONG_RUN or len(parts) > 1 or places is not None:
            return None
        is_run = int(rows[-1]) - int(rows[0]) == num_rows - 1 and bool((rows[1:] > rows[:-1]).all())
        return column.side_by_side(data, int(rows[0]), num_rows) if is_run else None

    def copied(self, parts: Sequence[RowsOfColumn], num_rows: int) -> tuple[pa.Buffer, pa.Buffer | None] | None:
        """The values of `taken` side by side, and the bits of those that are not null; None if there is no null."""
        width = self.values.value_bits // 8
        num_bits = (num_rows + 7) // 8
        target = pa.allocate_buffer(num_rows * width) if width else pa.py_buffer(np.zeros(num_bits, np.uint8))
        validity, valid_bits, num_nulls = None, 0, 0
        if any(part.column._may_be_null for part in parts):
            validity = pa.py_buffer(np.zeros(num_bits, np.uint8))
            valid_bits = validity.address
        for column, data, rows, places in parts:
            if data.size < column.file_size:
                return None
            nulls = copy_values(
                data.address, *column._tables, address_of(rows), 0 if places is None else address_of(places),
                len(rows), width, target.address, valid_bits,
            )  # fmt: skip
            if nulls < 0:
                return None
            num_nulls += nulls
        return target, validity if num_nulls else None

    def side_by_side(self, data: pa.Buffer, first: int, num_rows: int) -> pa.Array | None:
        """The values of rows from number `first` on; None if they can be null, have no whole bytes, or as `taken`."""
        width = self.values.value_bits // 8
        if not width or data.size < self.file_size:
            return None
        target = pa.allocate_buffer(num_rows * width)
        block = np.empty(BLOCK_VALUES * width, np.uint8)
        if copy_range(data.address, *self._tables, first, num_rows, width, target.address, address_of(block)) < 0:
            return None
        try:
            return self.values.array(target, num_rows, None)
        except CorruptFileError:
            return None

    def places_between(self, data: pa.Buffer, rows: Int64Array, low: int | None, high: int | None) -> Int64Array | None:
        """int64: the places among `rows` (int64[n], ascending) of whole numbers from `low` to `high`.

        None as of `side_by_side`, and if most rows between them are not asked for.
        """
        first, num_rows = int(rows[0]), int(rows[-1]) - int(rows[0]) + 1
        if self.values.items > 1 or num_rows * _DENSE_SHARE > len(rows):
            return None
        found = self.side_by_side(data, first, num_rows)
        if found is None:
            return None
        numbers = np.frombuffer(found.buffers()[1], f"<i{self.values.value_bits // 8}", num_rows)
        if num_rows > len(rows):
            numbers = numbers[rows - first]
        is_inside = np.ones(len(rows), np.bool_) if low is None else numbers >= low
        return (is_inside if high is None else is_inside & (numbers <= high)).nonzero()[0]

    @cached_property
    def _tables(self) -> tuple[int, int, int, int]:
        return address_of(self.pages), self.pages.shape[1], address_of(self.chunks), self.chunks.shape[1]

    @cached_property
    def _may_be_null(self) -> bool:
        for kind, second, level_bits in zip(*self.pages.tolist(), strict=True):
            has_levels = second > 0 if kind == ZIPPED else level_bits != NO_LEVELS or kind == NULLS
            if second != NO_VALIDITY if kind == BARE else has_levels:
                return True
        return False


class BarePage(NamedTuple):
    """A page of values side by side, without chunks and levels.

    Attributes:
        values: where they are in the file; None if all are null.
        validity: where the bits are that say which of them are valid; None if all are.
        num_rows: of the page.
    """

    values: EncodedBuffer | None
    validity: EncodedBuffer | None
    num_rows: int

    def num_bytes(self, values: FixedWidth) -> int:
        """Bytes of all values."""
        return (self.num_rows * values.value_bits + 7) // 8

    @property
    def num_valid_bytes(self) -> int:
        """Bytes of the bits of valid values."""
        return 0 if self.validity is None else (self.num_rows + 7) // 8

    def is_inside(self, values: FixedWidth, file_size: int) -> bool:
        """Whether a file of that size has all values and bits, and their buffers are as long as they have to be."""
        held = [(self.values, self.num_bytes(values)), (self.validity, self.num_valid_bytes)]
        if self.values is None and values.value_bits > _MAX_NULL_BITS:
            return False
        return all(
            0 <= buffer.position <= file_size - buffer.size and needed <= buffer.size
            for buffer, needed in held
            if buffer is not None
        )


class RowsOfColumn(NamedTuple):
    """Some rows of a column.

    Attributes:
        data: the file.
        rows: int64[n], in any order.
        places: int64[n]: the places of the rows in the result, each that of one row; None for their order.
    """

    column: SingleRows
    data: pa.Buffer
    rows: Int64Array
    places: Int64Array | None = None


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


def forms_of_pages(
    values: FixedWidth, pages: Sequence[EncodedPage], layouts: Sequence[PageLayout]
) -> Sequence[Form] | None:
    """The pages as `kernels.layouts.single_rows.copy_values` takes them: those of mini-blocks, and those of one value.
    None if a page is of another kind, or holds other values than `values`.
    """
    return known_forms([form_of(values, page, layout) for page, layout in zip(pages, layouts, strict=True)])


def form_of(values: FixedWidth, page: EncodedPage, layout: PageLayout) -> Form | None:
    """The form of one page, see `forms_of_pages`; None if the page is of another kind."""
    if type(layout) is MiniBlockLayout:
        return form_of_page(page, layout, kind_of_values(layout.value_compression, values))
    return _constant_form(values, page, layout)


def _zipped_forms(
    values: FixedWidth, pages: Sequence[EncodedPage], layouts: Sequence[PageLayout]
) -> Sequence[Form] | None:
    """The forms of full-zip pages of vectors, see `forms_of_pages`; None if one is of another kind."""
    controls = [control_bytes(page, values.items, values.value_bits // 8) for page in pages]
    known = [control for control in controls if control is not None]
    # Of the levels of a vector alone, 1 is a null; a struct around it has others.
    if len(known) < len(controls) or any(len(getattr(layout, "layers", ())) != 1 for layout in layouts):
        return None
    return [(ZIPPED, control, NO_LEVELS) for control in known]


def _constant_form(values: FixedWidth, page: EncodedPage, layout: PageLayout) -> tuple[int, int, int] | None:
    """The column of the table of pages for a page of one value, or of nulls only; None for others."""
    if not isinstance(layout, ConstantLayout) or page.buffers or len(layout.layers) != 1 or layout.layers[0].is_list:
        return None
    value = layout.inline_value
    if value is None:
        may_be_null = layout.layers[0] is RepDefLayer.NULLABLE_ITEM and values.value_bits <= _MAX_NULL_BITS
        return (NULLS, 0, NO_LEVELS) if may_be_null else None
    size = (values.value_bits + 7) // 8
    if size not in _WORD_SIZES or len(value) != size or (values.bits == 1 and value not in _BOOLEANS):
        return None
    return CONSTANT, int.from_bytes(value, "little", signed=True), NO_LEVELS


def kind_of_values(encoding: MiniBlockEncoding, values: FixedWidth) -> int | None:
    """The kind of a mini-block page of `values` in the table of pages; None if kernels do not know the encoding."""
    # Checks against abstract classes take a call of Python.
    if type(encoding) is InlineBitpacking:
        return PACKED if values.items == 1 and encoding.uncompressed_bits_per_value == values.bits else None
    if type(encoding) is FixedSizeList:
        if encoding.has_validity or encoding.items_per_value != values.items or not isinstance(encoding.values, Flat):
            return None
        return FLAT if encoding.values.bits_per_value == values.bits else None
    if values.items > 1:
        return None
    if type(encoding) is Flat:
        return (BITS if values.bits == 1 else FLAT) if encoding.bits_per_value == values.bits else None
    return RUNS if isinstance(encoding, Rle) and encoding.bits_per_value == values.bits else None
