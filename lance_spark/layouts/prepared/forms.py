"""Tables of pages for `kernels.layouts.pick`, from the forms of the pages and the type of their column."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.base import ValueForm
from lance_spark.encodings.blocks import Block, FixedSizeListBlock, FixedWidthBlock, Int64Array
from lance_spark.encodings.fsst import symbols_of
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick import BARE, CHUNKS, PAGE_NUMBERS, REPEATED, SYMBOLS_BYTES, ZIPPED
from lance_spark.kernels.layouts.pick_levels import NO_LEVELS
from lance_spark.kernels.layouts.pick_values import BITS, FLAT, STRINGS
from lance_spark.layouts.arrow_values import block_to_array
from lance_spark.layouts.base import EncodedPage
from lance_spark.layouts.checked_values import PLAIN
from lance_spark.layouts.leaf.values import is_variable
from lance_spark.layouts.mini_block.chunks import ChunkTable
from lance_spark.layouts.page_form import PageForm, PickableLayout
from lance_spark.layouts.registry import parse_page
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer

_NO_INDEX = -1
_MAX_NULL_BITS = 1 << 17
"""Maximum bits of a null without bytes in the file: room for a few thousand of them is allocated."""

_MOST_SLOTS = {CHUNKS: 1 << 13, ZIPPED: 1 << 10, REPEATED: 1 << 10, BARE: 1 << 7}
"""See `most_slots`, by layout: chunks are picked by the range, others value by value."""

_INDEX_TYPES = {bits: pa.type_for_alias(f"uint{bits}") for bits in (8, 16, 32, 64)}

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FixedWidth:
    """Values of fixed width.

    Attributes:
        data_type: their type.
        bits: of an item: 1, or a multiple of 8.
        items: of a fixed-size list, at least 1; 1 of other values.
    """

    data_type: pa.DataType
    bits: int
    items: int = 1

    @classmethod
    def of(cls, data_type: pa.DataType, bits: int, items: int = 1) -> FixedWidth | None:
        """Returns None for types of other kinds, and for other widths."""
        if items < 1:
            # Only damaged schemas have such lists. To kernels, values without bytes are bits.
            return None
        item_type = data_type
        if items > 1 or pa.types.is_fixed_size_list(data_type):
            if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != items or bits == 1:
                return None
            item_type = data_type.value_type
        if pa.types.is_nested(item_type) or pa.types.is_dictionary(item_type) or not (bits == 1 or bits % 8 == 0):
            return None
        try:
            return cls(data_type, bits, items) if 0 < bits == item_type.bit_width else None
        except ValueError:
            return None

    @classmethod
    def of_type(cls, data_type: pa.DataType) -> FixedWidth | None:
        """Values of a type in their usual width; None as `of`."""
        known = _KNOWN.get(data_type.id)
        if known is not None:
            return known
        if data_type.id in PLAIN:
            return cls(data_type, data_type.bit_width)
        is_list = pa.types.is_fixed_size_list(data_type)
        try:
            bits = (data_type.value_type if is_list else data_type).bit_width
        except ValueError:
            return None
        return cls.of(data_type, bits, data_type.list_size if is_list else 1)

    @property
    def value_bits(self) -> int:
        """The bits of a value."""
        return self.bits * self.items

    def array(self, data: pa.Buffer, num_values: int, validity: pa.Buffer | None) -> pa.Array:
        """An array of the values.

        Raises:
            CorruptFileError: they are not of this type.
        """
        if self.data_type.id in PLAIN:
            return pa.Array.from_buffers(self.data_type, num_values, [validity, data])
        block: Block = FixedWidthBlock(data, self.bits, num_values * self.items)
        if pa.types.is_fixed_size_list(self.data_type):
            block = FixedSizeListBlock(block, self.items, None, num_values)
        return block_to_array(block, self.data_type, validity)


_NUMBERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.bool_(), pa.float16(), pa.float32(), pa.float64(), pa.date32()),
)
_KNOWN = {dtype.id: FixedWidth(dtype, dtype.bit_width) for dtype in _NUMBERS}


def form_of_page(page: EncodedPage) -> PageForm | None:
    """The form of a page of version 2.1 or later; None if single values of it cannot be found.

    Raises:
        CorruptFileError: the page contradicts the format.
        UnsupportedFeatureError: this release does not know its layout or an encoding.
    """
    layout = parse_page(page.type_url, page.message)
    return layout.form(page) if isinstance(layout, PickableLayout) else None


def run_key(form: PageForm) -> Hashable:
    """Pages with equal keys, one behind the other, are read by one call: the same levels and decompression."""
    if form.decoded_by is not None:
        return form.decoded_by.join_key(0, 1) or form
    lists = (form.layout, has_levels(form)) if form.has_lists else None
    index_bits = form.values.bits if form.dictionary is not None and form.values is not None else 0
    compressed_by = None if form.values is None else form.values.compressed_by
    return lists, form.layers[1:] and form.layers, compressed_by, form.dictionary, index_bits


def stored_type(forms: Sequence[PageForm], data_type: pa.DataType) -> FixedWidth | None:
    """The values in pages of one key and a leaf of `data_type`, or their indices into dictionaries; None for strings.

    Raises:
        ValueError: values of the type, or those of a page, are of another kind.
    """
    values = forms[0].values
    if forms[0].dictionary is not None:
        index_type = None if values is None else _INDEX_TYPES.get(values.bits)
        stored = None if index_type is None else FixedWidth.of_type(index_type)
    else:
        stored = FixedWidth.of_type(data_type)
    is_string = stored is None and forms[0].dictionary is None and is_variable(data_type)
    if stored is None and not is_string:
        raise ValueError(f"values of type {data_type} have no width")
    if not all(_fits(form, stored) for form in forms):
        raise ValueError(f"a page has no values of type {data_type}")
    return stored


def _fits(form: PageForm, stored: FixedWidth | None) -> bool:
    values = form.values
    if form.layout == REPEATED:
        width = 0 if stored is None else stored.value_bits
        if form.constant is None:
            return width <= _MAX_NULL_BITS
        return width > 0 and len(form.constant) == (width + 7) // 8 and (width > 1 or form.constant in (b"\0", b"\1"))
    if values is None or stored is None:
        return values is not None and values.kind == STRINGS
    return values.kind != STRINGS and (values.bits, values.items) == (stored.bits, stored.items)


def scheme_of(forms: Sequence[PageForm]) -> LevelScheme:
    """The levels of pages of one key. Those of leaves alone differ only in whether there are nulls."""
    if len(forms[0].layers) > 1:
        return LevelScheme.of(forms[0].layers)
    layer = RepDefLayer.NULLABLE_ITEM if any(map(has_levels, forms)) else RepDefLayer.ALL_VALID_ITEM
    return LevelScheme.of((layer,))


def has_levels(form: PageForm) -> bool:
    """Whether definition levels can be other than 0."""
    if form.layout == CHUNKS:
        return form.def_bits != NO_LEVELS
    if form.layout == ZIPPED:
        return form.def_bits > 0
    return form.constant is None if form.layout == REPEATED else form.side_data is not None


def most_slots(forms: Sequence[PageForm]) -> int:
    """The number of slots side by side up to which a pick takes less time than to decode. Decoded nulls take none."""
    return min([0 if _is_null(form) else _MOST_SLOTS[form.layout] for form in forms])


def _is_null(form: PageForm) -> bool:
    return form.layout == REPEATED and form.constant is None


def page_table(forms: Sequence[PageForm], stored: FixedWidth | None) -> tuple[Int64Array, Sequence[Bytes]]:
    """The pages as ``int64[PAGE_NUMBERS, n]``, and the symbols and values to whose memory the table refers."""
    held: dict[bytes, Bytes] = {}
    table: Int64Array = np.array([_row(form, stored, held) for form in forms], np.int64).T.copy()
    assert len(table) == PAGE_NUMBERS
    return table, tuple(held.values())


def _row(form: PageForm, stored: FixedWidth | None, held: dict[bytes, Bytes]) -> tuple[int, ...]:
    address, values = 0, form.values
    if form.constant is not None:
        address = address_of(held.setdefault(form.constant, np.frombuffer(form.constant, np.uint8)))
    elif values is not None and values.symbol_table is not None:
        address = _address_of_symbols(values.symbol_table, held)
    index = _NO_INDEX if form.side_data is None else form.side_data.position
    rep_bits = form.adjustment if form.layout == BARE else form.rep_bits
    return (
        form.layout, *_kind(values, stored), form.size_bytes, rep_bits, form.def_bits, address, index, form.side_bytes
    )  # fmt: skip


def _kind(values: ValueForm | None, stored: FixedWidth | None) -> tuple[int, int]:
    """(kind, bytes of a value)."""
    if stored is None:
        return STRINGS, 0 if values is None else values.bits // 8
    if stored.value_bits == 1:
        return BITS, 0
    return FLAT if values is None else values.kind, stored.value_bits // 8


def _address_of_symbols(table: bytes, held: dict[bytes, Bytes]) -> int:
    """Address of the symbols of an FSST table; 0 if its strings are not compressed."""
    symbols = symbols_of(table)
    if symbols is None:
        return 0
    if table not in held:
        held[table] = np.concatenate([symbols.symbols.view(np.uint8), symbols.lengths])
        assert held[table].nbytes == SYMBOLS_BYTES
    return address_of(held[table])


def chunks_of(forms: Sequence[PageForm], data: pa.Buffer) -> ChunkTable:
    """The chunks of pages of the file `data`. Pages of other layouts are one chunk.

    Raises:
        CorruptFileError: a page leaves the file, or its chunks contradict it.
    """
    pages, num_chunks = [], 0
    for form in forms:
        for buffer in (form.words, form.data, form.side_data or form.words):
            if buffer.position < 0 or buffer.size < 0 or buffer.position + buffer.size > data.size:
                raise CorruptFileError(f"a page leaves the file of {data.size} bytes", start=buffer.position)
        word_bytes = form.size_bytes if form.layout == CHUNKS else 0
        pages.append((word_bytes, data.address + form.words.position, form.words.size, *form.data, form.num_values))
        num_chunks += form.words.size // word_bytes if word_bytes else 1
    return ChunkTable.of_pages(np.array(pages, np.int64).T.copy(), num_chunks)


def control_bytes(page: EncodedPage, dimension: int, width: int) -> int | None:
    """Bytes before each vector of a full-zip page; None if its vectors are at no computable places.

    Args:
        dimension: values of a vector.
        width: bytes of a vector.

    Raises:
        CorruptFileError: the page cannot be parsed.
    """
    form = form_of_page(page) if page.num_rows else None
    if form is None or form.layout != ZIPPED or form.side_data is not None or form.has_lists or form.values is None:
        return None
    fits = form.values.items == dimension and form.values.bits * dimension == 8 * width
    return form.size_bytes if fits else None
