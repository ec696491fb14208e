"""General: another encoding whose first buffer is compressed (`lance.encodings21.General`).

Mini-blocks: buffer 0 of every chunk on its own, the others as they are. A block: all of it. Full-zip: every value on
its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, CompressiveEncoding, MiniBlockEncoding, PerValueEncoding
from lance_spark.encodings.blocks import Block, Chunks, FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.encodings.buffer_compression import BufferCompression
from lance_spark.encodings.registry import RoleT, parse, register
from lance_spark.errors import CorruptFileError

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
        return cls(BufferCompression.from_proto(message.compression), parse(message.values, role))

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            general=pb.General(compression=self.compression.to_proto(), values=self.values.to_proto())
        )

    @property
    def num_buffers(self) -> int:
        return self._values_as(MiniBlockEncoding).num_buffers

    def decode_mini_blocks(self, buffers: list[Chunks]) -> Block:
        values = self._values_as(MiniBlockEncoding)
        first = self.compression.decompress(buffers[0], self._limits(buffers[0]))
        return values.decode_mini_blocks([first, *buffers[1:]])

    def decode_blocks(self, chunks: Chunks) -> Block:
        values = self._values_as(BlockEncoding)
        return values.decode_blocks(self.compression.decompress(chunks, self._limits(chunks)))

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> Block:
        if not isinstance(block, VariableWidthBlock):
            raise CorruptFileError("general: values of equal width cannot be compressed one by one")
        offsets = np.frombuffer(block.offsets, f"<i{block.bits_per_offset // 8}", block.num_values + 1)
        offsets = offsets.astype(np.int64)
        sizes = np.diff(offsets)
        values = self.compression.decompress(Chunks(block.data, offsets[:-1], sizes, np.ones_like(sizes)))
        ends = np.zeros(block.num_values + 1, np.int64)
        np.cumsum(values.sizes, out=ends[1:])
        whole = VariableWidthBlock(pa.py_buffer(ends), values.data, 64, block.num_values)
        if block.bits_per_offset == 32 and values.data.size < 1 << 31:
            whole = replace(whole, offsets=pa.py_buffer(ends.astype(np.int32)), bits_per_offset=32)
        return self._values_as(PerValueEncoding).decode_values(whole)

    def _values_as(self, role: type[RoleT]) -> RoleT:
        if not isinstance(self.values, role):
            raise CorruptFileError(f"general: {self.values.wire_name} cannot stand where a {role.__name__} is needed")
        return self.values

    def _limits(self, chunks: Chunks) -> Int64Array | None:
        limits = [self.values.max_encoded_bytes(count) for count in chunks.num_values.tolist()]
        if any(limit is None for limit in limits):
            return None
        return np.array([min(limit or 0, 1 << 62) + _PADDING_BYTES for limit in limits], np.int64)
