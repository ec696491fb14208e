"""Flat: values of equal width, back to back (`lance.encodings21.Flat`).

One-bit values are LSB first; n values take ``ceil(n * bits_per_value / 8)`` bytes in each chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import (
    BlockEncoding,
    CompressiveEncoding,
    EncodedBlocks,
    EncodedMiniBlocks,
    EncodedValues,
    MiniBlockEncoding,
    PerValueEncoding,
    ValueForm,
)
from lance_spark.encodings.blocks import (
    MAX_UNBACKED_BYTES,
    ChunkLimits,
    Chunks,
    FixedWidthBlock,
    Int64Array,
    VariableWidthBlock,
    equal_chunks,
    starts_of,
)
from lance_spark.encodings.buffer_compression import refuse_buffer_compression
from lance_spark.encodings.registry import register
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.bits import concatenate_bits, measure_flat, split_bits
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_values import BITS, FLAT
from lance_spark.kernels.slices import concatenate

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_BITS_PER_VALUE = 1 << 34


@register
@dataclass(frozen=True, slots=True)
class Flat(MiniBlockEncoding, BlockEncoding, PerValueEncoding):
    """`bits_per_value` is the width of a value, 1 for booleans."""

    wire_name: ClassVar[str] = "flat"
    bits_per_value: int

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        refuse_buffer_compression(message, "data", cls.wire_name)
        if message.bits_per_value > _MAX_BITS_PER_VALUE:
            raise CorruptFileError(f"flat: values of {message.bits_per_value} bits")
        return cls(message.bits_per_value)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=self.bits_per_value))

    def max_encoded_bytes(self, num_values: int) -> int | None:
        return (num_values * self.bits_per_value + 7) // 8

    @property
    def num_buffers(self) -> int:
        return 1

    @classmethod
    def encode_mini_blocks(cls, block: FixedWidthBlock, limits: ChunkLimits) -> EncodedMiniBlocks[Self]:
        """Views of the values, split into chunks; a copy only where chunks of bits do not end at byte boundaries."""
        counts = equal_chunks(block.num_values, limits.values_per_chunk(block.bits_per_value))
        return EncodedMiniBlocks(cls(block.bits_per_value), [cut(block.data, block.bits_per_value, counts)])

    @classmethod
    def encode_blocks(cls, block: FixedWidthBlock, counts: Int64Array) -> EncodedBlocks[Self]:
        """Blocks of `counts[i]` values."""
        return EncodedBlocks(cls(block.bits_per_value), cut(block.data, block.bits_per_value, counts))

    @classmethod
    def encode_values(cls, block: FixedWidthBlock) -> EncodedValues[Self]:
        """The values unchanged."""
        return EncodedValues(cls(block.bits_per_value), block)

    def decode_mini_blocks(self, buffers: list[Chunks]) -> FixedWidthBlock:
        return self.decode_blocks(buffers[0])

    @property
    def value_form(self) -> ValueForm | None:
        bits = self.bits_per_value
        if bits == 1:
            return ValueForm(BITS, 1)
        return ValueForm(FLAT, bits) if bits > 0 and bits % 8 == 0 else None

    def decode_blocks(self, chunks: Chunks) -> FixedWidthBlock:
        """The values; a view if the slices are adjacent, else a copy."""
        bits, count = self.bits_per_value, len(chunks.starts)
        # Values of no bits have no bytes that bound their number.
        most_values = -1 if bits else MAX_UNBACKED_BYTES // max(count, 1)
        tables = [np.ascontiguousarray(table) for table in (chunks.starts, chunks.sizes, chunks.num_values)]
        sizes, totals = np.empty((2, count), np.int64), np.empty(4, np.int64)
        status = measure_flat(*map(address_of, tables), count, bits, most_values, address_of(sizes), address_of(totals))
        if status < 0:
            raise CorruptFileError(f"flat: a chunk is too short for its values of {bits} bits")
        num_values, num_bits, ends_in_byte, is_adjacent = totals.tolist()
        data, num_bytes = chunks.data, (num_bits + 7) // 8
        if num_bytes == 0 or is_adjacent:
            return FixedWidthBlock(data.slice(int(tables[0][0]) if num_bytes else 0, num_bytes), bits, num_values)
        target = pa.allocate_buffer(num_bytes + ends_in_byte)
        if ends_in_byte:
            concatenate_bits(data.address, address_of(tables[0]), address_of(sizes[0]), count, target.address)
        else:
            concatenate(data.address, address_of(tables[0]), address_of(sizes[1]), count, target.address)
        return FixedWidthBlock(target.slice(0, num_bytes), bits, num_values)

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> FixedWidthBlock:
        if not isinstance(block, FixedWidthBlock) or block.bits_per_value != self.bits_per_value:
            raise CorruptFileError(f"flat: the page does not hold values of {self.bits_per_value} bits")
        return block


def cut(data: pa.Buffer, bits_per_value: int, counts: Int64Array) -> Chunks:
    """Slices of `counts[i]` values; views of `data` if every slice begins at a byte boundary."""
    if len(counts) == 1:
        return Chunks.single(data.slice(0, (int(counts[0]) * bits_per_value + 7) >> 3), int(counts[0]))
    num_bits = counts * bits_per_value
    bit_starts = starts_of(num_bits)
    sizes = (num_bits + 7) >> 3
    if not bool((bit_starts & 7).any()):
        return Chunks(data, bit_starts >> 3, sizes, counts)
    target = pa.allocate_buffer(int(sizes.sum()))
    split_bits(data.address, address_of(num_bits), len(num_bits), target.address)
    return Chunks(target, starts_of(sizes), sizes, counts)
