"""General: another encoding whose first buffer is compressed (`lance.encodings21.General`).

Mini-blocks: buffer 0 of every chunk separately, the others unchanged. A block: all of it. Full-zip: every value
separately.
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
    EncodedValues,
    MiniBlockEncoding,
    PerValueEncoding,
    ValueForm,
)
from lance_spark.encodings.blocks import Block, Chunks, FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.encodings.buffer_compression import BufferCompression
from lance_spark.encodings.registry import RoleT, parse, register
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.layouts.pick_values import STRINGS

if TYPE_CHECKING:
    from typing_extensions import Self

_PADDING_BYTES = 64


@register
@dataclass(frozen=True, slots=True)
class General(MiniBlockEncoding, BlockEncoding, PerValueEncoding):
    """`values` compressed with `compression`; it has the roles that `values` has."""

    wire_name: ClassVar[str] = "general"
    compression: BufferCompression
    values: CompressiveEncoding

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        values = parse(message.values, role)
        if isinstance(values, General):
            raise CorruptFileError("general: compressed bytes that are compressed again")
        return cls(BufferCompression.from_proto(message.compression), values)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            general=pb.General(compression=self.compression.to_proto(), values=self.values.to_proto())
        )

    @classmethod
    def encode_mini_blocks(
        cls, values: EncodedMiniBlocks[MiniBlockEncoding], compression: BufferCompression
    ) -> EncodedMiniBlocks[Self]:
        """Buffer 0 of every chunk compressed."""
        first = compression.compress(values.buffers[0])
        return EncodedMiniBlocks(cls(compression, values.encoding), [first, *values.buffers[1:]])

    @classmethod
    def encode_block(cls, values: EncodedBlock[BlockEncoding], compression: BufferCompression) -> EncodedBlock[Self]:
        """The block compressed."""
        chunks = compression.compress(Chunks.single(values.data, values.num_values))
        return EncodedBlock(cls(compression, values.encoding), chunks.data, values.num_values)

    @classmethod
    def encode_values(
        cls, values: EncodedValues[PerValueEncoding], compression: BufferCompression
    ) -> EncodedValues[Self]:
        """Every value compressed separately; they must have variable width.

        Raises:
            InvalidInputError: the values have fixed width.
        """
        block = values.block
        if not isinstance(block, VariableWidthBlock):
            raise InvalidInputError("only values of variable width can be compressed one by one")
        compressed = compression.compress(_slices(block))
        return EncodedValues(cls(compression, values.encoding), _joined(compressed, block.bits_per_offset))

    @property
    def num_buffers(self) -> int:
        return self._values_as(MiniBlockEncoding).num_buffers

    def decode_mini_blocks(self, buffers: list[Chunks]) -> Block:
        values = self._values_as(MiniBlockEncoding)
        first = self.compression.decompress(buffers[0], self._limits(buffers[0]))
        return values.decode_mini_blocks([first, *buffers[1:]])

    @property
    def value_form(self) -> ValueForm | None:
        """The form of strings each of which is compressed alone; of mini-block pages whole chunks are compressed."""
        inner = self.values.value_form
        return None if inner is None or inner.kind != STRINGS else inner._replace(compressed_by=self)

    def decode_blocks(self, chunks: Chunks) -> Block:
        values = self._values_as(BlockEncoding)
        return values.decode_blocks(self.compression.decompress(chunks, self._limits(chunks)))

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> Block:
        if not isinstance(block, VariableWidthBlock):
            raise CorruptFileError("general: values of equal width cannot be compressed one by one")
        return self.decode_slices(_slices(block), block.bits_per_offset)

    def decode_slices(self, values: Chunks, bits_per_offset: int) -> Block:
        """Decodes values that are slices of a buffer; offsets have `bits_per_offset` bits, or 64.

        Raises:
            CorruptFileError: a slice contradicts itself.
        """
        decompressed = self.compression.decompress(values)
        return self._values_as(PerValueEncoding).decode_values(_joined(decompressed, bits_per_offset))

    def _values_as(self, role: type[RoleT]) -> RoleT:
        if not isinstance(self.values, role):
            raise CorruptFileError(f"general: {self.values.wire_name} cannot stand where a {role.__name__} is needed")
        return self.values

    def _limits(self, chunks: Chunks) -> Int64Array | None:
        counts = chunks.num_values.tolist()
        limits: dict[int, int] = {}
        # Nearly all chunks have the same number of values.
        for count in set(counts):
            limit = self.values.max_encoded_bytes(count)
            if limit is None:
                return None
            limits[count] = min(limit, 1 << 62) + _PADDING_BYTES
        return np.array([limits[count] for count in counts], np.int64)


def _slices(block: VariableWidthBlock) -> Chunks:
    """Every value as a slice."""
    offsets = np.frombuffer(block.offsets, f"<i{block.bits_per_offset // 8}", block.num_values + 1).astype(np.int64)
    sizes = np.diff(offsets)
    return Chunks(block.data, offsets[:-1], sizes, np.ones_like(sizes))


def _joined(chunks: Chunks, bits_per_offset: int) -> VariableWidthBlock:
    """Back-to-back slices as values; offsets are widened to 64 bits if 32 are not enough."""
    ends = np.zeros(len(chunks.sizes) + 1, np.int64)
    np.cumsum(chunks.sizes, out=ends[1:])
    bits = bits_per_offset if chunks.data.size < 1 << 31 else 64
    return VariableWidthBlock(pa.py_buffer(ends.astype(f"<i{bits // 8}")), chunks.data, bits, len(chunks.sizes))
