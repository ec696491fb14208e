"""Packed struct: rows of fields of equal width (`lance.encodings21.PackedStruct`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import CompressiveEncoding, MiniBlockEncoding, PerValueEncoding
from lance_spark.encodings.blocks import Block, Chunks, FixedWidthBlock, PackedStructBlock, VariableWidthBlock
from lance_spark.encodings.registry import parse, register
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.slices import gather_rows

if TYPE_CHECKING:
    from typing_extensions import Self


@register
@dataclass(frozen=True, slots=True)
class PackedStruct(MiniBlockEncoding, PerValueEncoding):
    """`bits_per_value` has the width of each field; `values` is the encoding of the rows."""

    wire_name: ClassVar[str] = "packed_struct"
    bits_per_value: tuple[int, ...]
    values: CompressiveEncoding

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        if any(bits % 8 for bits in message.bits_per_value):
            raise UnsupportedFeatureError("a packed struct with a field that is not whole bytes", feature=cls.wire_name)
        return cls(tuple(message.bits_per_value), parse(message.values, role))

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            packed_struct=pb.PackedStruct(bits_per_value=self.bits_per_value, values=self.values.to_proto())
        )

    def max_encoded_bytes(self, num_values: int) -> int | None:
        return self.values.max_encoded_bytes(num_values)

    @property
    def num_buffers(self) -> int:
        if not isinstance(self.values, MiniBlockEncoding):
            raise CorruptFileError(f"packed_struct: {self.values.wire_name} cannot stand in a mini-block")
        return self.values.num_buffers

    def decode_mini_blocks(self, buffers: list[Chunks]) -> PackedStructBlock:
        if not isinstance(self.values, MiniBlockEncoding):
            raise CorruptFileError(f"packed_struct: {self.values.wire_name} cannot stand in a mini-block")
        return self._split(self.values.decode_mini_blocks(buffers))

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> PackedStructBlock:
        if not isinstance(self.values, PerValueEncoding):
            raise CorruptFileError(f"packed_struct: {self.values.wire_name} cannot stand in a full-zip page")
        return self._split(self.values.decode_values(block))

    def _split(self, rows: Block) -> PackedStructBlock:
        if not isinstance(rows, FixedWidthBlock) or rows.bits_per_value != sum(self.bits_per_value):
            raise CorruptFileError(f"packed_struct: the rows are not {sum(self.bits_per_value)} bits wide")
        stride = rows.bits_per_value // 8
        children: list[Block] = []
        at = 0
        for bits in self.bits_per_value:
            target = pa.allocate_buffer(rows.num_values * bits // 8)
            gather_rows(rows.data.address + at, stride, bits // 8, rows.num_values, target.address)
            children.append(FixedWidthBlock(target, bits, rows.num_values))
            at += bits // 8
        return PackedStructBlock(tuple(children), rows.num_values)
