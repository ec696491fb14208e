"""Bit packing with one width for everything (`lance.encodings21.OutOfLineBitpacking`).

A block of n values is its full sets of 1024 words, packed as in `kernels.bitpack`, and a tail of t values: another
packed set, or t raw words. Exactly t remaining words mean the latter. The width is the width of the inner `Flat`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, CompressiveEncoding, EncodedBlocks
from lance_spark.encodings.blocks import (
    Chunks,
    FixedWidthBlock,
    Int64Array,
    allocate_unbacked,
    check,
    starts_of,
    total_of,
)
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.inline_bitpacking import WORD_BITS
from lance_spark.encodings.registry import parse, register
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, pack_out_of_line, unpack_out_of_line
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_levels import LEVEL_BITS

if TYPE_CHECKING:
    from typing_extensions import Self


def packed_sizes(counts: Int64Array, word_bits: int, bit_width: int) -> Int64Array:
    """Bytes of blocks of `counts[i]` values: tails are raw unless a packed set is smaller."""
    tails = counts % BLOCK_VALUES
    block_bytes = bit_width * BLOCK_BYTES_PER_BIT
    return np.asarray(counts // BLOCK_VALUES * block_bytes + np.minimum(tails * (word_bits // 8), block_bytes))


@register
@dataclass(frozen=True, slots=True)
class OutOfLineBitpacking(BlockEncoding):
    """Words of `uncompressed_bits_per_value` (8, 16, 32 or 64) bits, packed to `bit_width`."""

    wire_name: ClassVar[str] = "out_of_line_bitpacking"
    uncompressed_bits_per_value: int
    bit_width: int

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        word_bits = message.uncompressed_bits_per_value
        bit_width = parse(message.values, Flat).bits_per_value
        if word_bits not in WORD_BITS or bit_width > word_bits:
            raise CorruptFileError(f"out_of_line_bitpacking: words of {word_bits} bits packed to {bit_width}")
        return cls(word_bits, bit_width)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            out_of_line_bitpacking=pb.OutOfLineBitpacking(
                uncompressed_bits_per_value=self.uncompressed_bits_per_value, values=Flat(self.bit_width).to_proto()
            )
        )

    def max_encoded_bytes(self, num_values: int) -> int | None:
        return (num_values + BLOCK_VALUES) * self.uncompressed_bits_per_value // 8

    @classmethod
    def encode_blocks(cls, block: FixedWidthBlock, counts: Int64Array, bit_width: int) -> EncodedBlocks[Self]:
        """Blocks of `counts[i]` values, none of which has more than `bit_width` bits."""
        sizes = packed_sizes(counts, block.bits_per_value, bit_width)
        target = pa.allocate_buffer(total_of(sizes))
        scratch = np.zeros(BLOCK_VALUES * block.bits_per_value // 8, np.uint8)
        pack_out_of_line(
            block.data.address,
            address_of(counts),
            len(counts),
            block.bits_per_value,
            bit_width,
            address_of(scratch),
            target.address,
        )
        return EncodedBlocks(cls(block.bits_per_value, bit_width), Chunks(target, starts_of(sizes), sizes, counts))

    @property
    def level_bits(self) -> int | None:
        return self.bit_width if self.uncompressed_bits_per_value == LEVEL_BITS else None

    def decode_blocks(self, chunks: Chunks) -> FixedWidthBlock:
        word_bits = self.uncompressed_bits_per_value
        block_bytes = self.bit_width * BLOCK_BYTES_PER_BIT
        starts, sizes, num_values = (
            np.ascontiguousarray(table) for table in (chunks.starts, chunks.sizes, chunks.num_values)
        )
        if block_bytes and bool((num_values // BLOCK_VALUES > sizes // block_bytes).any()):
            raise CorruptFileError("out_of_line_bitpacking: a chunk is too short for its number of values")
        # A Python sum, since counts from the file that are not backed by bytes could overflow.
        total = sum(num_values.tolist())
        num_bytes = (total + BLOCK_VALUES) * word_bits // 8
        target = pa.allocate_buffer(num_bytes) if block_bytes else allocate_unbacked(num_bytes, self.wire_name)
        status = unpack_out_of_line(
            chunks.data.address,
            address_of(starts),
            address_of(sizes),
            address_of(num_values),
            len(num_values),
            word_bits,
            self.bit_width,
            target.address,
        )
        check(status, self.wire_name)
        return FixedWidthBlock(target.slice(0, total * word_bits // 8), word_bits, total)
