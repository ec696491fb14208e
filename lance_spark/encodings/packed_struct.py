"""Packed struct: rows of fields of equal width (`lance.encodings21.PackedStruct`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import CompressiveEncoding, EncodedMiniBlocks, MiniBlockEncoding, PerValueEncoding
from lance_spark.encodings.blocks import (
    Block,
    ChunkLimits,
    Chunks,
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.registry import parse, register
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.kernels.slices import gather_rows, scatter_rows

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

    @classmethod
    def encode_mini_blocks(cls, block: PackedStructBlock, limits: ChunkLimits) -> EncodedMiniBlocks[Self]:
        """Chunks of rows.

        Raises:
            InvalidInputError: a field has no fixed width, or not a multiple of 8 bits.
        """
        rows, widths = _joined(block)
        values = Flat.encode_mini_blocks(rows, limits)
        return EncodedMiniBlocks(cls(widths, values.encoding), values.buffers)

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


def _joined(block: PackedStructBlock) -> tuple[FixedWidthBlock, tuple[int, ...]]:
    """The rows, and the width of each field in bits."""
    fields = [child for child in block.children if isinstance(child, FixedWidthBlock) and child.bits_per_value % 8 == 0]
    if len(fields) < len(block.children):
        raise InvalidInputError("a packed struct in mini-blocks needs fields of whole bytes and equal width")
    widths = tuple(field.bits_per_value for field in fields)
    stride = sum(widths) // 8
    target = pa.allocate_buffer(block.num_values * stride)
    at = 0
    for field in fields:
        width = field.bits_per_value // 8
        scatter_rows(field.data.address, stride, width, block.num_values, target.address + at)
        at += width
    return FixedWidthBlock(target, stride * 8, block.num_values), widths
