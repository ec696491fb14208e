"""Byte stream split: the bytes of a chunk's values grouped by byte position (`lance.encodings21.ByteStreamSplit`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import CompressiveEncoding, EncodedMiniBlocks, MiniBlockEncoding, ValueForm
from lance_spark.encodings.blocks import (
    ChunkLimits,
    Chunks,
    FixedWidthBlock,
    equal_chunks,
    starts_of,
)
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.registry import parse, register
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.byte_stream_split import join_bytes, split_bytes
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_values import SPLIT

if TYPE_CHECKING:
    from typing_extensions import Self


@register
@dataclass(frozen=True, slots=True)
class ByteStreamSplit(MiniBlockEncoding):
    """Values of `bits_per_value` (32 or 64) bits."""

    wire_name: ClassVar[str] = "byte_stream_split"
    bits_per_value: int

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        bits_per_value = parse(message.values, Flat).bits_per_value
        if bits_per_value not in (32, 64):
            raise UnsupportedFeatureError(
                f"byte_stream_split of values of {bits_per_value} bits", feature="byte_stream_split"
            )
        return cls(bits_per_value)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=Flat(self.bits_per_value).to_proto()))

    def max_encoded_bytes(self, num_values: int) -> int | None:
        return num_values * self.bits_per_value // 8

    @property
    def num_buffers(self) -> int:
        return 1

    @classmethod
    def encode_mini_blocks(cls, block: FixedWidthBlock, limits: ChunkLimits) -> EncodedMiniBlocks[Self]:
        """Chunks with equal numbers of values."""
        counts = equal_chunks(block.num_values, limits.values_per_chunk(block.bits_per_value))
        word_bytes = block.bits_per_value // 8
        target = pa.allocate_buffer(block.num_values * word_bytes)
        split_bytes(block.data.address, address_of(counts), len(counts), word_bytes, target.address)
        sizes = counts * word_bytes
        return EncodedMiniBlocks(cls(block.bits_per_value), [Chunks(target, starts_of(sizes), sizes, counts)])

    def decode_mini_blocks(self, buffers: list[Chunks]) -> FixedWidthBlock:
        chunks = buffers[0]
        word_bytes = self.bits_per_value // 8
        if bool((chunks.num_values > chunks.sizes // word_bytes).any()):
            raise CorruptFileError("byte_stream_split: a chunk is too short for its values")
        starts, num_values = np.ascontiguousarray(chunks.starts), np.ascontiguousarray(chunks.num_values)
        total = chunks.total_values
        target = pa.allocate_buffer(total * word_bytes)
        join_bytes(
            chunks.data.address,
            address_of(starts),
            address_of(num_values),
            len(starts),
            word_bytes,
            target.address,
        )
        return FixedWidthBlock(target, self.bits_per_value, total)

    @property
    def value_form(self) -> ValueForm | None:
        return ValueForm(SPLIT, self.bits_per_value)
