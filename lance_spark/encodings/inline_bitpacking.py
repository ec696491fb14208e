"""Inline bit packing: blocks of up to 1024 words, each with its own width (`lance.encodings21.InlineBitpacking`).

A chunk is a word with the width W and 1024 words of W bits, packed as in `kernels.bitpack`, also where it holds fewer
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, CompressiveEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock
from lance_spark.encodings.buffer_compression import refuse_buffer_compression
from lance_spark.encodings.registry import register
from lance_spark.encodings.status import check
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.addresses import address_of
from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES, unpack_inline

if TYPE_CHECKING:
    from typing_extensions import Self

WORD_BITS = (8, 16, 32, 64)
"""Widths of words that can be packed."""


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

    def decode_mini_blocks(self, buffers: list[Chunks]) -> FixedWidthBlock:
        return self.decode_blocks(buffers[0])

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
