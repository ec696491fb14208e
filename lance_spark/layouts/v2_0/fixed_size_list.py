"""FixedSizeList: each value is `dimension` items of an inner array (`lance.encodings.FixedSizeList`).

Null lists are encoded outside of it, null items inside (both `Nullable`); a null list has items too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.layouts.v2_0.base import ArrayEncoding, FileReads, PageBuffers, Selection, require_type
from lance_spark.layouts.v2_0.registry import parse, register


@register
@dataclass(frozen=True, slots=True)
class FixedSizeList(ArrayEncoding):
    """Lists of `dimension` of the `items`."""

    wire_name: ClassVar[str] = "fixed_size_list"
    dimension: int
    items: ArrayEncoding

    @classmethod
    def from_proto(cls, message: Any) -> FixedSizeList:
        # `has_validity` is false in all known files; the Nullable around the lists has the same information.
        return cls(message.dimension, parse(message.items))

    @property
    def bits_per_value(self) -> int | None:
        item_bits = self.items.bits_per_value
        return None if item_bits is None else item_bits * self.dimension

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        matches = pa.types.is_fixed_size_list(arrow_type) and arrow_type.list_size == self.dimension
        require_type(matches, f"fixed_size_list({self.dimension})", arrow_type)
        items = yield from self.items.read(buffers, selection.scaled(self.dimension), arrow_type.value_type)
        return pa.Array.from_buffers(arrow_type, selection.num_values, [None], children=[items])
