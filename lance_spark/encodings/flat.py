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
)
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.encodings.buffer_compression import refuse_buffer_compression
from lance_spark.encodings.chunk_limits import ChunkLimits, equal_chunks, starts_of
from lance_spark.encodings.registry import register
from lance_spark.encodings.status import MAX_UNBACKED_BYTES, check
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.bits import concatenate_bits, split_bits
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import concatenate
from lance_spark.kernels.takes import take_flat
from lance_spark.kernels.v2_0 import gather_bits

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
    def can_take(self) -> bool:
        bits = self.bits_per_value
        return bits == 1 or (0 < bits <= _MAX_BITS_PER_VALUE and bits % 8 == 0)

    def take_mini_blocks(self, buffers: list[Chunks], chunks: Int64Array, places: Int64Array) -> FixedWidthBlock:
        bits = self.bits_per_value
        held, count = buffers[0], len(places)
        if bits == 1:
            if bool((held.num_values > held.sizes * 8).any()):
                raise CorruptFileError("flat: a chunk is too short for its bits")
            target = pa.py_buffer(bytearray((count + 7) // 8))
            starts, lengths = held.starts[chunks] * 8 + places, np.ones(count, np.int64)
            gather_bits(held.data.address, address_of(starts), address_of(lengths), count, target.address)
            return FixedWidthBlock(target, 1, count)
        width = bits // 8
        target = pa.allocate_buffer(count * width)
        tables = held.starts, held.sizes, held.num_values, chunks, places
        addresses = [address_of(np.ascontiguousarray(table)) for table in tables]
        check(take_flat(held.data.address, *addresses, count, width, target.address), self.wire_name)
        return FixedWidthBlock(target, bits, count)

    def take_blocks(self, chunks: Chunks, indices: Int64Array, places: Int64Array) -> FixedWidthBlock | None:
        return self.take_mini_blocks([chunks], indices, places) if self.can_take else None

    def decode_blocks(self, chunks: Chunks) -> FixedWidthBlock:
        """The values; a view if the slices are adjacent, else a copy."""
        bits = self.bits_per_value
        most = chunks.sizes * 8 // bits if bits else MAX_UNBACKED_BYTES // max(len(chunks.sizes), 1)
        if bool((chunks.num_values > most).any()):
            raise CorruptFileError(f"flat: a chunk is too short for its values of {bits} bits")
        num_bits = chunks.num_values * bits
        sizes = (num_bits + 7) >> 3
        num_bytes = (int(num_bits.sum()) + 7) // 8
        if bits % 8 and bool((num_bits[:-1] & 7).any()):
            data = _concatenated_bits(chunks, num_bits, num_bytes)
        else:
            data = _concatenated(chunks, sizes, num_bytes)
        return FixedWidthBlock(data, bits, chunks.total_values)

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> FixedWidthBlock:
        if not isinstance(block, FixedWidthBlock) or block.bits_per_value != self.bits_per_value:
            raise CorruptFileError(f"flat: the page does not hold values of {self.bits_per_value} bits")
        return block


def cut(data: pa.Buffer, bits_per_value: int, counts: Int64Array) -> Chunks:
    """Slices of `counts[i]` values; views of `data` if every slice begins at a byte boundary."""
    num_bits = counts * bits_per_value
    bit_starts = starts_of(num_bits)
    sizes = (num_bits + 7) >> 3
    if not bool((bit_starts & 7).any()):
        return Chunks(data, bit_starts >> 3, sizes, counts)
    target = pa.allocate_buffer(int(sizes.sum()))
    split_bits(data.address, address_of(num_bits), len(num_bits), target.address)
    return Chunks(target, starts_of(sizes), sizes, counts)


def _concatenated(chunks: Chunks, sizes: Int64Array, num_bytes: int) -> pa.Buffer:
    if num_bytes == 0:
        return chunks.data.slice(0, 0)
    if bool((chunks.starts[1:] == chunks.starts[:-1] + sizes[:-1]).all()):
        return chunks.data.slice(int(chunks.starts[0]), num_bytes)
    starts = np.ascontiguousarray(chunks.starts)
    target = pa.allocate_buffer(num_bytes)
    concatenate(chunks.data.address, address_of(starts), address_of(sizes), len(starts), target.address)
    return target


def _concatenated_bits(chunks: Chunks, num_bits: Int64Array, num_bytes: int) -> pa.Buffer:
    starts = np.ascontiguousarray(chunks.starts)
    target = pa.allocate_buffer(num_bytes + 1)
    concatenate_bits(chunks.data.address, address_of(starts), address_of(num_bits), len(starts), target.address)
    return target.slice(0, num_bytes)
