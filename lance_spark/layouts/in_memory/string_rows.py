"""Byte strings of single rows of a column, copied from a file in memory by two calls of kernels.

That is possible for strings and binaries in mini-block chunks, full-zip pages and pages of version 2.0, compressed by
FSST or not, and for pages of nulls only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.base import MiniBlockEncoding
from lance_spark.encodings.blocks import Block, Chunks, Int64Array, VariableWidthBlock
from lance_spark.encodings.fsst import Fsst, symbols_of
from lance_spark.encodings.general import General
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.compression.fsst import SLACK_BYTES
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.single_rows import BARE, FLAT, NO_LEVELS, NULLS, ZIPPED
from lance_spark.kernels.layouts.single_strings import SYMBOLS_BYTES, copy_strings, find_strings, locate_strings
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.arrow_values import block_to_array
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, EncodedPage, PageLayout
from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.in_memory.columns import MAX_PAGES
from lance_spark.layouts.in_memory.page_tables import Form, are_inside, form_of_page, known_forms, tables_of
from lance_spark.layouts.leaf.values import is_variable
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.registry import parse_page
from lance_spark.layouts.repdef import RepDefLayer

_NULLS = (NULLS, 0, NO_LEVELS, 0, 0, 0)
"""The column of pages of nulls only in the table of pages."""

_INDEX = 1
"""The buffer of a full-zip page with the places of its rows."""

_MAX_BYTES = 16 << 20
"""Of all strings that are copied at once; the memory is allocated for the most that they can have."""

_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class StringRows:
    """The pages and chunks of a column.

    Attributes:
        data_type: of the strings.
        file_size: of the file, in bytes.
        pages, chunks: the tables of `kernels.layouts.single_strings.locate_strings`.
        symbols: to which `pages` refers.
        general: the pages whose strings are compressed each by itself; no page has nulls then, and each is one chunk.
    """

    data_type: pa.DataType
    file_size: int
    pages: Int64Array
    chunks: Int64Array
    symbols: tuple[_Bytes, ...]
    general: GeneralPages | None = None

    @classmethod
    def of(cls, column: EncodedColumn, data_type: pa.DataType, data: pa.Buffer) -> StringRows | None:
        """A column of the file `data`, which is a top-level field; None if its values or pages are of other kinds.

        A column that contradicts the format is left to the general way, as by `SingleRows`.
        """
        pages = [page for page in column.pages if page.num_rows]
        if not is_variable(data_type) or not 0 < len(pages) <= MAX_PAGES:
            return None
        symbols: dict[bytes, _Bytes] = {}
        try:
            described = [_described(page, parse_page(page.type_url, page.message), symbols, data) for page in pages]
            forms = known_forms([form for form, _ in described])
            tables = None if forms is None else tables_of(pages, forms, data)
        except (CorruptFileError, UnsupportedFeatureError):
            return None
        if tables is None or int(tables.chunks[3, -1]) != column.num_rows:
            return None
        found = cls(data_type, data.size, tables.pages, tables.chunks, tuple(symbols.values()))
        encodings = [general for _, general in described]
        known = {encoding for encoding in encodings if encoding is not None}
        if not known:
            return found
        if len(known) > 1 or symbols or found._may_be_null or tables.chunks.shape[1] != len(pages):
            return None
        return replace(found, general=GeneralPages(known.pop(), np.array([each is not None for each in encodings])))

    @classmethod
    def of_bare_pages(cls, data_type: pa.DataType, pages: Sequence[BareStrings], data: pa.Buffer) -> StringRows | None:
        """A column of such pages of the file `data`; None if one of them is not inside of it."""
        symbols: dict[bytes, _Bytes] = {}
        forms, chunks = [], []
        for number, page in enumerate(pages):
            buffers = (page.ends, page.data)
            if not all(0 <= start <= data.size - size for start, size in buffers) or page.ends.size < 8 * page.num_rows:
                return None
            if page.num_bytes > page.data.size:
                return None
            address = 0 if page.symbol_table is None else address_of_symbols(page.symbol_table, symbols)
            forms.append((BARE, page.data.position, page.num_bytes, page.adjustment, address, 0))
            chunks.append((number, *page.ends, page.num_rows))
        of_pages, of_chunks = [np.ascontiguousarray(np.array(table, np.int64).T) for table in (forms, chunks)]
        np.cumsum(of_chunks[3], out=of_chunks[3])
        return cls(data_type, data.size, of_pages, of_chunks, tuple(symbols.values()))

    @classmethod
    def of_nulls(cls, data_type: pa.DataType, num_rows: int) -> StringRows | None:
        """A column that its file does not have; None if values of the type are of other kinds."""
        if not is_variable(data_type):
            return None
        return cls(data_type, 0, np.array([_NULLS], np.int64).T.copy(), np.array([[0], [0], [0], [num_rows]]), ())

    @property
    def num_bytes(self) -> int:
        """Memory of the tables and symbols, in bytes."""
        return self.pages.nbytes + self.chunks.nbytes + sum([table.nbytes for table in self.symbols])

    @cached_property
    def value_bits(self) -> int:
        """About how many bits of the file are a value."""
        return 8 * int(self.chunks[2].sum()) // int(self.chunks[3, -1])

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order).

        None if the pages contradict themselves, there is no such row, or the values are large.
        """
        found, validity, most = self.located(data, rows)
        if self.general is not None and most >= 0:
            return self._decompressed(self.general, found, data, rows, most)
        try:
            block = copied_strings(found, len(rows), most, self.data_type, are_compressed=bool(self.symbols))
            return None if block is None else block_to_array(block, self.data_type, validity)
        except CorruptFileError:
            return None

    def _decompressed(
        self, general: GeneralPages, found: Int64Array, data: pa.Buffer, rows: Int64Array, most: int
    ) -> pa.Array | None:
        """The values of `rows`, which are located and of which some are compressed."""
        are_compressed = general.are_compressed[self.chunks[3].searchsorted(rows, side="right")]
        count = np.count_nonzero(are_compressed)
        if 0 < count < len(rows):
            order = np.argsort(~are_compressed, kind="stable")
            parts = [self.of_rows(data, rows[order[:count]]), self.of_rows(data, rows[order[count:]])]
            known = [part for part in parts if part is not None]
            return take(pa.concat_arrays(known), np.argsort(order)) if len(known) == len(parts) else None
        try:
            if count > 0 and most <= _MAX_BYTES:
                # Decompressed where they lie in the file.
                slices = Chunks(data, found[0] - data.address, found[1], np.ones(len(rows), np.int64))
                values: Block | None = general.encoding.decode_slices(slices, _offset_bits(self.data_type))
            else:
                values = copied_strings(found, len(rows), most, self.data_type, are_compressed=False)
            return None if values is None else block_to_array(values, self.data_type, None)
        except (CorruptFileError, UnsupportedFeatureError):
            return None

    def located(self, data: pa.Buffer, rows: Int64Array) -> tuple[Int64Array, pa.Buffer | None, int]:
        """Locations of the strings of `rows`, their validity, and the most bytes that they can have.

        The locations are ``int64[3, n]``, see `locate_strings`; the most bytes are negative if a row is not found.
        """
        num_rows = len(rows)
        found = np.empty((3, num_rows), np.int64)
        if data.size < self.file_size:
            return found, None, -1
        validity = pa.py_buffer(np.zeros((num_rows + 7) // 8, np.uint8)) if self._may_be_null else None
        most = locate_strings(
            data.address, *self._tables, address_of(rows), num_rows, 0 if validity is None else validity.address,
            address_of(found),
        )  # fmt: skip
        return found, validity, most

    def places_of(self, data: pa.Buffer, rows: Int64Array, value: bytes) -> Int64Array | None:
        """int64: the places among `rows` (int64[n]) of those that have a value; None as of `of_rows`."""
        if data.size < self.file_size or self.general is not None:
            return None
        wanted = pa.py_buffer(value + bytes(SLACK_BYTES))
        places = np.empty(len(rows), np.int64)
        num_found = find_strings(
            data.address, *self._tables, address_of(rows), len(rows), wanted.address, len(value), address_of(places)
        )
        return None if num_found < 0 else places[:num_found]

    @cached_property
    def _tables(self) -> tuple[int, int, int, int]:
        return address_of(self.pages), self.pages.shape[1], address_of(self.chunks), self.chunks.shape[1]

    @cached_property
    def _may_be_null(self) -> bool:
        for kind, size_bytes, level_bits in zip(*self.pages[:3].tolist(), strict=True):
            if kind in (NULLS, BARE) or (size_bytes > 0 if kind == ZIPPED else level_bits != NO_LEVELS):
                return True
        return False


class GeneralPages(NamedTuple):
    """Pages of a column whose strings are compressed each by itself.

    Attributes:
        encoding: of all of them.
        are_compressed: bool[pages], which pages of the column they are.
    """

    encoding: General
    are_compressed: npt.NDArray[np.bool_]


class BareStrings(NamedTuple):
    """A page of strings of version 2.0.

    Attributes:
        ends: u64[num_rows]: where each string ends in the bytes; of nulls that and the adjustment.
        data: the bytes, of which there are `num_bytes`.
        adjustment: more than any end.
        symbol_table: of FSST, if the bytes are codes.
        num_rows: of the page.
    """

    ends: EncodedBuffer
    data: EncodedBuffer
    num_bytes: int
    adjustment: int
    symbol_table: bytes | None
    num_rows: int


def copied_strings(
    found: Int64Array, num_values: int, most: int, data_type: pa.DataType, *, are_compressed: bool
) -> VariableWidthBlock | None:
    """The first strings that a kernel has found; None if they have no codes, or may be large.

    Args:
        found: ``int64[3, n]``, as of `locate_strings`.
        most: the most bytes that they can have, negative if they were not found.
    """
    if not 0 <= most <= _MAX_BYTES:
        return None
    target = pa.allocate_buffer(most + SLACK_BYTES, resizable=are_compressed)
    bits = _offset_bits(data_type)
    offsets = pa.allocate_buffer((num_values + 1) * bits // 8)
    size = copy_strings(address_of(found), found.shape[1], num_values, bits // 8, offsets.address, target.address)
    if size < 0:
        return None
    if are_compressed:
        target.resize(size, shrink_to_fit=True)
    return VariableWidthBlock(offsets, target.slice(0, size), bits, num_values)


_LARGE = (pa.large_string().id, pa.large_binary().id)


def _offset_bits(data_type: pa.DataType) -> int:
    return 64 if data_type.id in _LARGE else 32


def _described(
    page: EncodedPage, layout: PageLayout, symbols: dict[bytes, _Bytes], data: pa.Buffer
) -> tuple[Form | None, General | None]:
    """The column of a page in the table of pages, and what each string is compressed with; symbols are added to
    `symbols`.
    """
    form: Form | None
    encoding: object
    general, width = None, 0
    if type(layout) is MiniBlockLayout:
        encoding, offset_bits = layout.value_compression, 0
        form = form_of_page(page, layout, _kind(layout.value_compression))
    elif isinstance(layout, FullZipLayout):
        encoding, offset_bits = layout.value_compression, layout.bits_per_offset or 0
        width = _width_of_index(page, layout, data)
        form = (ZIPPED, layout.control_bytes, page.buffers[_INDEX].position) if width else None
        if isinstance(encoding, General):
            general, encoding = encoding, encoding.values
    else:
        return _nulls_of(page, layout), None
    address = 0
    if type(encoding) is Fsst:
        address = address_of_symbols(encoding.symbol_table, symbols)
        encoding = encoding.values
    if form is None or type(encoding) is not Variable:
        return None, None
    return (*form, (offset_bits or encoding.bits_per_offset) // 8, address, width), general


def _nulls_of(page: EncodedPage, layout: PageLayout) -> Form | None:
    if not isinstance(layout, ConstantLayout) or layout.inline_value is not None or page.buffers:
        return None
    return _NULLS if layout.layers == (RepDefLayer.NULLABLE_ITEM,) else None


def _width_of_index(page: EncodedPage, layout: FullZipLayout, data: pa.Buffer) -> int:
    """Bytes of an index entry, see `index_bytes`, of a page without lists; 0 for pages of other kinds."""
    may_be_null = layout.layers[0] is RepDefLayer.NULLABLE_ITEM
    if len(layout.layers) != 1 or layout.layers[0].is_list or layout.bits_rep or layout.bits_def > int(may_be_null):
        return 0
    return index_bytes(page, layout, data)


def index_bytes(page: EncodedPage, layout: FullZipLayout, data: pa.Buffer) -> int:
    """Bytes of an entry of the index of a full-zip page; 0 if its rows are not found by one, or it is broken."""
    if layout.bits_per_offset is None or len(page.buffers) != _INDEX + 1:
        return 0
    (_, num_bytes), (start, size) = page.buffers
    width = size // (page.num_rows + 1)
    if width not in (1, 2, 4, 8) or width * (page.num_rows + 1) != size or not are_inside([page], data.size):
        return 0
    entries = np.frombuffer(data, f"<u{width}", page.num_rows + 1, start)
    return width if int(entries[0]) == 0 and int(entries[-1]) == num_bytes else 0


def _kind(encoding: MiniBlockEncoding) -> int | None:
    # Checks against abstract classes take a call of Python.
    return FLAT if type(encoding) is Variable or type(encoding) is Fsst else None


def address_of_symbols(table: bytes, symbols: dict[bytes, _Bytes]) -> int:
    """Address of the symbols of an FSST table, which are kept in `symbols`; 0 if it has none."""
    parsed = symbols_of(table)
    if parsed is None:
        return 0
    if table not in symbols:
        held: _Bytes = np.concatenate([parsed.symbols.view(np.uint8), parsed.lengths])
        assert held.nbytes == SYMBOLS_BYTES
        symbols[table] = held
    return address_of(symbols[table])
