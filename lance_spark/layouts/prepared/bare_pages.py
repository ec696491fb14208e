"""Fields of 2.0 files: values back to back, with validity bits beside them, and lists by the ends of their items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.base import ValueForm
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.layouts.pick import BARE, REPEATED
from lance_spark.kernels.layouts.pick_values import BITS, FLAT, STRINGS
from lance_spark.layouts.page_form import PageForm
from lance_spark.layouts.prepared.field import LeafField, PreparedField
from lance_spark.layouts.prepared.leaf import MAX_PAGES, PreparedLeaf
from lance_spark.layouts.repdef import RepDefLayer
from lance_spark.layouts.v2_0.base import ArrayEncoding, PageBuffers
from lance_spark.layouts.v2_0.binary import WIDE_OFFSETS, Binary
from lance_spark.layouts.v2_0.column import Column
from lance_spark.layouts.v2_0.fixed_size_list import FixedSizeList
from lance_spark.layouts.v2_0.flat import Flat
from lance_spark.layouts.v2_0.fsst import Fsst
from lance_spark.layouts.v2_0.nodes import LeafNode, ListNode, Node, StructNode
from lance_spark.layouts.v2_0.nullable import AllNull, NoNull, Nullable, SomeNull

_END_BITS = 64
"""Size of the end of a string or list."""

_FEW_ITEMS = 64
"""Items are picked one by one up to this many in a list, on average; the page reader copies them list by list."""

_LAYERS = (RepDefLayer.NULLABLE_ITEM,)

_FormOfPage = Callable[[ArrayEncoding, PageBuffers, int], PageForm | None]


@dataclass(frozen=True)
class StructField(PreparedField):
    """Structs, none of which is null.

    Attributes:
        data_type: of the structs.
        members: their members, in order.
    """

    data_type: pa.DataType
    members: Sequence[PreparedField]

    @property
    def num_bytes(self) -> int:
        return sum([member.num_bytes for member in self.members])

    @cached_property
    def value_bits(self) -> int:
        return sum([member.value_bits for member in self.members])

    @property
    def most_rows(self) -> int:
        return min([member.most_rows for member in self.members])

    def _pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        arrays = []
        for member in self.members:
            array = member.pick(data, rows)
            if array is None:
                return None
            arrays.append(array)
        return pa.Array.from_buffers(self.data_type, len(rows), [None], children=arrays)


@dataclass(frozen=True)
class ListField(PreparedField):
    """Lists by the ends of their items, which count from the first item of a page.

    Attributes:
        data_type: of the lists.
        ends: uint64: the end of each list; of null lists that and the adjustment of the page.
        first_rows, first_items, num_items, adjustments: int64[pages]; the first list and item of each page, and its
            number of items; `adjustments` are larger than these.
        items: the items.
    """

    data_type: pa.DataType
    ends: PreparedLeaf
    first_rows: Int64Array
    first_items: Int64Array
    num_items: Int64Array
    adjustments: Int64Array
    items: PreparedField

    @classmethod
    def of(cls, lists: ListNode, items: PreparedField, data: pa.Buffer) -> ListField | None:
        """Lists of the file `data`; None if their ends are compressed."""
        forms, of_pages = [], []
        borders = zip(lists.pages, lists.first_items.tolist(), pairwise(lists.column.borders), strict=False)
        for number, (page, first_item, (first_row, stop_row)) in enumerate(borders):
            form = _values(pa.uint64(), page.offsets, lists.column.buffers(number), stop_row - first_row)
            if form is None or form.side_data is not None:
                return None
            forms.append((form, stop_row - first_row))
            of_pages.append((first_row, first_item, page.num_items, page.null_offset_adjustment))
        ends = _leaf(pa.uint64(), forms, data)
        if ends is None:
            return None
        first_rows, first_items, num_items, adjustments = np.array(of_pages, np.int64).T.copy()
        return cls(lists.data_type, ends, first_rows, first_items, num_items, adjustments, items)

    @property
    def num_bytes(self) -> int:
        return self.ends.num_bytes + self.items.num_bytes

    @property
    def value_bits(self) -> int:
        """About how many bits of the file are a value, without its items."""
        return _END_BITS

    @cached_property
    def most_rows(self) -> int:
        most_items = self.items.most_rows * self.ends.num_rows // max(int(self.num_items.sum()), 1)
        return min(self.ends.most_rows, most_items)

    def _pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """Also None if the lists have many items."""
        pages = self.first_rows.searchsorted(rows, side="right") - 1
        bounds = self.ends.pick(data, np.concatenate([rows, np.maximum(rows - 1, 0)]))
        if bounds is None or int(pages.min()) < 0:
            return None
        stops, starts = bounds.to_numpy().astype(np.int64).reshape(2, len(rows))
        starts = np.where(rows == self.first_rows[pages], 0, starts)
        adjustments = self.adjustments[pages]
        is_null = stops >= adjustments
        stops, starts = stops - adjustments * is_null, starts - adjustments * (starts >= adjustments)
        if bool(((starts < 0) | (starts > stops) | (stops > self.num_items[pages])).any()):
            raise CorruptFileError("the ends of lists fall, or leave their page")
        lengths = np.where(is_null, 0, stops - starts)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        num_items = int(offsets[-1])
        if num_items > _FEW_ITEMS * (len(rows) + 1):
            return None
        numbers = np.repeat(self.first_items[pages] + starts - offsets[:-1], lengths) + np.arange(num_items)
        items = self.items.pick(data, numbers) if num_items else pa.nulls(0, self.data_type.value_type)
        if items is None:
            return None
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if bool(is_null.any()) else None
        is_wide = pa.types.is_large_list(self.data_type)
        buffers = [validity, pa.py_buffer(offsets if is_wide else offsets.astype(np.int32))]
        return pa.Array.from_buffers(self.data_type, len(rows), buffers, children=[items])


def bare_field(node: Node, data: pa.Buffer) -> PreparedField | None:
    """Single rows of a field of the file `data`; None if the page reader has to read them."""
    if isinstance(node, StructNode):
        members = [bare_field(member, data) for member in node.members]
        present = [member for member in members if member is not None]
        return StructField(node.data_type, present) if present and len(present) == len(members) else None
    if isinstance(node, ListNode):
        items = bare_field(node.items, data)
        return None if items is None else ListField.of(node, items, data)
    if not isinstance(node, LeafNode):
        return None
    is_string = node.data_type in WIDE_OFFSETS
    leaf = _leaf(node.data_type, _forms(node.column, _strings if is_string else partial(_values, node.data_type)), data)
    return None if leaf is None else LeafField(leaf)


def _leaf(data_type: pa.DataType, forms: Sequence[tuple[PageForm, int]] | None, data: pa.Buffer) -> PreparedLeaf | None:
    if not forms or len(forms) > MAX_PAGES:
        return None
    try:
        return PreparedLeaf.of_forms(data_type, data_type, None, forms, sum([count for _, count in forms]), data)
    except CorruptFileError:
        # Values of other pages can still be read.
        return None


def _forms(column: Column, form_of: _FormOfPage) -> list[tuple[PageForm, int]] | None:
    """The pages of a column and their rows; None if a page has no form, or is damaged."""
    forms = []
    try:
        for number, (start, stop) in enumerate(pairwise(column.borders)):
            form = form_of(column.encoding(number), column.buffers(number), stop - start)
            if form is None:
                return None
            forms.append((form, stop - start))
    except (CorruptFileError, UnsupportedFeatureError):
        return None
    return forms


def _strings(encoding: ArrayEncoding, buffers: PageBuffers, num_rows: int) -> PageForm | None:
    """A page of strings, whose nulls are among their ends."""
    table = None
    values = _without_nulls(encoding)
    if isinstance(values, Fsst):
        table, values = values.symbol_table, values.binary
    if not isinstance(values, Binary) or not values.null_adjustment:
        return None
    ends, codes = _without_nulls(values.indices), _without_nulls(values.data)
    if not isinstance(ends, Flat) or not isinstance(codes, Flat) or (ends.width, codes.width) != (_END_BITS, 8):
        return None
    if ends.scheme != "none" or codes.scheme != "none":
        return None
    places, data = ends.buffer.locate(buffers), codes.buffer.locate(buffers)
    num_bytes = values.null_adjustment - 1
    if num_bytes > data.size:
        return None
    form = ValueForm(STRINGS, _END_BITS, symbol_table=table)
    return PageForm(
        BARE, _LAYERS, form, num_rows, places, side_data=data, side_bytes=num_bytes, adjustment=values.null_adjustment
    )  # fmt: skip


def _without_nulls(encoding: ArrayEncoding) -> ArrayEncoding:
    """The encoding of the values below one that declares no nulls; any other encoding as it is."""
    if isinstance(encoding, Nullable) and isinstance(encoding.nullability, NoNull):
        return encoding.nullability.values
    return encoding


def _values(data_type: pa.DataType, encoding: ArrayEncoding, buffers: PageBuffers, num_rows: int) -> PageForm | None:
    """A page of `num_rows` values of fixed width, or of nulls."""
    valid = None
    nullability = encoding.nullability if isinstance(encoding, Nullable) else NoNull(encoding)
    if isinstance(nullability, AllNull):
        return PageForm(REPEATED, _LAYERS, None, num_rows)
    if isinstance(nullability, SomeNull):
        validity = nullability.validity
        if not isinstance(validity, Flat) or validity.width != 1 or validity.scheme != "none":
            return None
        valid = validity.buffer.locate(buffers)
        if valid.size < (num_rows + 7) // 8:
            return None
    lists = nullability.values
    flat, items = (lists.items, lists.dimension) if isinstance(lists, FixedSizeList) else (lists, 1)
    flat = _without_nulls(flat)
    if not isinstance(flat, Flat) or flat.scheme != "none":
        return None
    kind = BITS if flat.width == 1 else FLAT
    form = ValueForm(kind, flat.width, items)
    return PageForm(BARE, _LAYERS, form, num_rows, flat.buffer.locate(buffers), side_data=valid)
