"""PackedStruct: a struct of fixed-width members, stored row by row in one buffer (`lance.encodings.PackedStruct`).

Two members of 16 and 64 bits make rows of 10 bytes. `inner` describes the members, but their buffers do not exist.
There are no nulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.slices import gather_rows
from lance_spark.layouts.v2_0.base import (
    ArrayEncoding,
    BufferReference,
    FileReads,
    PageBuffers,
    Selection,
    read_bytes,
    require_type,
)
from lance_spark.layouts.v2_0.registry import parse, register


@register
@dataclass(frozen=True, slots=True)
class PackedStruct(ArrayEncoding):
    """Rows of the members `inner` in `buffer`."""

    wire_name: ClassVar[str] = "packed_struct"
    inner: tuple[ArrayEncoding, ...]
    buffer: BufferReference

    @classmethod
    def from_proto(cls, message: Any) -> PackedStruct:
        inner = tuple(parse(member) for member in message.inner)
        if any(member.bits_per_value is None or member.bits_per_value % 8 for member in inner):
            raise CorruptFileError("packed_struct: a member is not a whole number of bytes wide")
        return cls(inner, BufferReference.from_proto(message.buffer))

    @property
    def bits_per_value(self) -> int:
        return sum(member.bits_per_value or 0 for member in self.inner)

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        matches = pa.types.is_struct(arrow_type) and arrow_type.num_fields == len(self.inner)
        require_type(matches, f"packed_struct of {len(self.inner)} members", arrow_type)
        row_bytes = self.bits_per_value // 8
        starts, stops = selection.ranges.starts * row_bytes, selection.ranges.stops * row_bytes
        rows = yield from read_bytes(self.buffer.locate(buffers), starts, stops)
        children, offset = [], 0
        for member, encoding in zip(arrow_type, self.inner, strict=True):
            member_bytes = (encoding.bits_per_value or 0) // 8
            require_type(8 * member_bytes == _flat_width(member.type), f"packed {8 * member_bytes} bits", member.type)
            data = pa.allocate_buffer(selection.num_values * member_bytes)
            gather_rows(rows.address + offset, row_bytes, member_bytes, selection.num_values, data.address)
            children.append(_from_flat(data, member.type, selection.num_values))
            offset += member_bytes
        return pa.Array.from_buffers(arrow_type, selection.num_values, [None], children=children)


def _flat_width(arrow_type: pa.DataType) -> int | None:
    """Bits of one value; list items are back to back."""
    if pa.types.is_fixed_size_list(arrow_type):
        item_width = _flat_width(arrow_type.value_type)
        return None if item_width is None else item_width * int(arrow_type.list_size)
    try:
        return int(arrow_type.bit_width)
    except ValueError:
        return None


def _from_flat(data: pa.Buffer, arrow_type: pa.DataType, num_values: int) -> pa.Array:
    if not pa.types.is_fixed_size_list(arrow_type):
        return pa.Array.from_buffers(arrow_type, num_values, [None, data])
    items = _from_flat(data, arrow_type.value_type, num_values * arrow_type.list_size)
    return pa.Array.from_buffers(arrow_type, num_values, [None], children=[items])
