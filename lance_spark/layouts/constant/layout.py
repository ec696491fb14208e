"""Constant pages: all values are equal, or null (`lance.encodings21.ConstantLayout`).

Until 2.2 the message was called `AllNullLayout` and supported only nulls. The buffers determine the contents:

==============  ========  ====================================================
`inline_value`  buffers   meaning
==============  ========  ====================================================
absent          0         all null (also: empty structs, and the null type)
absent          2         null, with repetition and definition levels
present         0         the value in every slot
present         2         the value, with repetition and definition levels
absent          1         the value of buffer 0 in every slot
absent          3         the value of buffer 0, then levels
==============  ========  ====================================================

Levels are raw u16 values, or a block if the message has a compression. A kind of levels that the page does not have
is an empty buffer. The value in a buffer is ``u32`` number of parts, ``u32`` size of each, and the parts of the Arrow
array of this one value (offsets and bytes); "same" is::

    02000000 08000000 04000000 | 00000000 04000000 | 73616d65
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding
from lance_spark.encodings.blocks import Chunks
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.layouts.pick import REPEATED
from lance_spark.layouts.base import EncodedPage, Page, Reads, RowRanges
from lance_spark.layouts.constant.values import (
    buffer_scalar,
    inline_scalar,
    is_empty_struct,
    null_leaf,
    repeated_leaf,
)
from lance_spark.layouts.leaf.arrays import Leaf
from lance_spark.layouts.page_form import PageForm, PickableLayout
from lance_spark.layouts.registry import bounded_count, optional_block, register, set_optional_block
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer, layers_from_wire, layers_to_wire
from lance_spark.layouts.row_selection import pick_rows, take_ranges
from lance_spark.layouts.unravel import LevelArray, SlotLevels, decode_levels, slot_levels, unravel


@register
@dataclass(frozen=True, slots=True)
class ConstantLayout(PickableLayout):
    """The fields of the wire message."""

    wire_name: ClassVar[str] = "constant_layout"
    layers: tuple[RepDefLayer, ...]
    inline_value: bytes | None = None
    rep_compression: BlockEncoding | None = None
    def_compression: BlockEncoding | None = None
    num_rep_values: int = 0
    num_def_values: int = 0

    @classmethod
    def from_proto(cls, message: Any) -> ConstantLayout:
        return cls(
            layers_from_wire(message.layers),
            message.inline_value if message.HasField("inline_value") else None,
            optional_block(message, "rep_compression"),
            optional_block(message, "def_compression"),
            bounded_count(message.num_rep_values),
            bounded_count(message.num_def_values),
        )

    def form(self, page: EncodedPage) -> PageForm | None:
        if page.buffers or len(self.layers) != 1 or self.layers[0].is_list:
            return None
        if self.inline_value is None and self.layers[0] is not RepDefLayer.NULLABLE_ITEM:
            return None
        return PageForm(REPEATED, self.layers, None, page.num_rows, constant=self.inline_value)

    def to_proto(self) -> Any:
        message = pb.ConstantLayout(
            layers=layers_to_wire(self.layers),
            inline_value=self.inline_value,
            num_rep_values=self.num_rep_values,
            num_def_values=self.num_def_values,
        )
        set_optional_block(message, "rep_compression", self.rep_compression)
        set_optional_block(message, "def_compression", self.def_compression)
        return pb.PageLayout(constant_layout=message)

    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        """See `PageLayout.read`. All buffers are read: a value and, if there are any, levels."""
        scheme = LevelScheme.of(self.layers)
        num_buffers = len(page.buffer_sizes)
        if num_buffers > 3 or (self.inline_value is not None and num_buffers % 2):
            raise CorruptFileError(f"constant: {num_buffers} buffers, inline value {self.inline_value is not None}")
        buffers = (yield [page.whole(number) for number in range(num_buffers)]) if num_buffers else []
        leaf_type = page.path.nodes[0].data_type
        value = None
        if self.inline_value is not None:
            value = inline_scalar(self.inline_value, leaf_type)
        elif num_buffers % 2:
            value = buffer_scalar(buffers[0], leaf_type)
        if value is None and scheme.max_def == 0 and not (pa.types.is_null(leaf_type) or is_empty_struct(leaf_type)):
            raise CorruptFileError("constant: all slots are valid, but the page has no value")
        leaf = null_leaf(leaf_type) if value is None else repeated_leaf(value)
        if num_buffers == 0 and is_empty_struct(leaf_type):
            return _empty_structs(page, rows, leaf)
        if num_buffers < 2:
            return _without_levels(page, scheme, rows, leaf, is_null=value is None)
        repetition = _levels(buffers[-2], self.rep_compression, self.num_rep_values)
        definition = _levels(buffers[-1], self.def_compression, self.num_def_values)
        levels = slot_levels(repetition, definition, page.num_rows * page.path.slots_per_row)
        if scheme.max_rep == 0:
            array = unravel(page.path, scheme, levels, leaf)
            return array if rows.is_all(page.num_rows) else take_ranges(array, rows)
        if rows.is_all(page.num_rows):
            return unravel(page.path, scheme, levels, leaf)
        return pick_rows(page.path, page.num_rows, scheme, levels, leaf, rows)


def _without_levels(page: Page, scheme: LevelScheme, rows: RowRanges, leaf: Leaf, *, is_null: bool) -> pa.Array:
    """All slots equal: valid, or null at the innermost nullable layer."""
    num_slots = rows.num_rows * page.path.slots_per_row
    definition = None
    if is_null and scheme.max_def > 0:
        definition = np.ones(num_slots, np.uint16)
    return unravel(page.path, scheme, SlotLevels(None, definition, num_slots), leaf)


def _empty_structs(page: Page, rows: RowRanges, leaf: Leaf) -> pa.Array:
    """Valid structs without fields. The reference writer gives them a single layer at any depth."""
    scheme = LevelScheme.of((RepDefLayer.ALL_VALID_ITEM,) * len(page.path.nodes))
    num_slots = rows.num_rows * page.path.slots_per_row
    return unravel(page.path, scheme, SlotLevels(None, None, num_slots), leaf)


def _levels(buffer: pa.Buffer, encoding: BlockEncoding | None, num_values: int) -> LevelArray | None:
    """The levels in a buffer, None if it is empty: raw, or as a block of `num_values` values."""
    if buffer.size == 0:
        return None
    if encoding is not None:
        return decode_levels(encoding, Chunks.single(buffer, num_values))
    if buffer.size % 2:
        raise CorruptFileError(f"constant: {buffer.size} bytes of 16-bit levels")
    return np.frombuffer(buffer, np.uint16)
