"""Inline bit packing: blocks of up to 1024 words, each block with its own width (`lance.encodings21.InlineBitpacking`).

A chunk is a word with the width W and 1024 words of W bits, packed as in `kernels.bitpack`, even if it has fewer
values.
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
    EncodedBlock,
    EncodedMiniBlocks,
    MiniBlockEncoding,
    ValueForm,
)
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock, Int64Array, check, equal_chunks, starts_of, total_of
from lance_spark.encodings.buffer_compression import refuse_buffer_compression
from lance_spark.encodings.registry import register
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, block_widths, pack_inline, unpack_inline
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_levels import LEVEL_BITS, PACKED_LEVELS
from lance_spark.kernels.layouts.pick_values import PACKED

if TYPE_CHECKING:
    from typing_extensions import Self

WORD_BITS = (8, 16, 32, 64)
"""Supported word widths."""


def measure_widths(block: FixedWidthBlock) -> Int64Array:
    """The bit width of the largest word per block of 1024 (the last may be shorter); words of 8, 16, 32 or 64 bits."""
    widths = np.zeros(-(-block.num_values // BLOCK_VALUES), np.int64)
    block_widths(block.data.address, block.num_values, block.bits_per_value, address_of(widths))
    return widths


@register
@dataclass(frozen=True, slots=True)
class InlineBitpacking(MiniBlockEncoding, BlockEncoding):
    """`uncompressed_bits_per_value` is 8, 16, 32 or 64."""

    wire_name: ClassVar[str] = "inline_bitpacking"
    uncompressed_bits_per_value: int

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        refuse_buffer_compression(message, "values", cls.wire_name)
        if message.uncompressed_bits_per_value not in WORD_BITS:
            raise CorruptFileError(f"inline_bitpacking: words of {message.uncompressed_bits_per_value} bits")
        return cls(message.uncompressed_bits_per_value)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=self.uncompressed_bits_per_value)
        )

    def max_encoded_bytes(self, num_values: int) -> int | None:
        return self.uncompressed_bits_per_value * (BLOCK_BYTES_PER_BIT + 1)

    @property
    def num_buffers(self) -> int:
        return 1

    @classmethod
    def encode_mini_blocks(cls, block: FixedWidthBlock, widths: Int64Array | None = None) -> EncodedMiniBlocks[Self]:
        """Chunks of 1024 values.

        Args:
            widths: `measure_widths` of the block, if known.
        """
        word_bits = block.bits_per_value
        widths = measure_widths(block) if widths is None else widths
        sizes = widths * BLOCK_BYTES_PER_BIT + word_bits // 8
        target = pa.allocate_buffer(total_of(sizes))
        scratch = np.zeros(BLOCK_VALUES * word_bits // 8, np.uint8)
        pack_inline(
            block.data.address, block.num_values, word_bits, address_of(widths), address_of(scratch), target.address
        )
        counts = equal_chunks(block.num_values, BLOCK_VALUES)[: len(sizes)]
        return EncodedMiniBlocks(cls(word_bits), [Chunks(target, starts_of(sizes), sizes, counts)])

    @classmethod
    def encode_block(cls, block: FixedWidthBlock) -> EncodedBlock[Self]:
        """One block of up to 1024 values."""
        encoded = cls.encode_mini_blocks(block)
        if len(encoded.num_values) > 1:
            raise InvalidInputError(f"{block.num_values} values do not fit into one block of inline bit packing")
        return EncodedBlock(encoded.encoding, encoded.buffers[0].data, block.num_values)

    def decode_mini_blocks(self, buffers: list[Chunks]) -> FixedWidthBlock:
        return self.decode_blocks(buffers[0])

    @property
    def value_form(self) -> ValueForm | None:
        return ValueForm(PACKED, self.uncompressed_bits_per_value)

    @property
    def level_bits(self) -> int | None:
        return PACKED_LEVELS if self.uncompressed_bits_per_value == LEVEL_BITS else None

    def decode_blocks(self, chunks: Chunks) -> FixedWidthBlock:
        word_bits = self.uncompressed_bits_per_value
        starts, sizes, num_values = (
            np.ascontiguousarray(table) for table in (chunks.starts, chunks.sizes, chunks.num_values)
        )
        if bool((num_values > BLOCK_VALUES).any()):
            raise CorruptFileError(f"inline_bitpacking: a chunk claims more than {BLOCK_VALUES} values")
        total = int(num_values.sum())
        target = pa.allocate_buffer((total + BLOCK_VALUES) * word_bits // 8)
        status = unpack_inline(
            chunks.data.address,
            address_of(starts),
            address_of(sizes),
            address_of(num_values),
            len(num_values),
            word_bits,
            target.address,
        )
        check(status, self.wire_name)
        return FixedWidthBlock(target.slice(0, total * word_bits // 8), word_bits, total)
