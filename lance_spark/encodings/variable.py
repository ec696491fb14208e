"""Variable: byte strings with offsets (`lance.encodings21.Variable`).

A mini-block chunk begins with n + 1 offsets relative to the start of the chunk. A standalone block starts with two
words, the bits of an offset and the position of the bytes, and its offsets start at 0; files of early 2.1 writers have
one byte with the bits, the number of values and the position of the bytes instead.
"""

from __future__ import annotations

import struct
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
from lance_spark.encodings.blocks import (
    ChunkLimits,
    Chunks,
    FixedWidthBlock,
    Int64Array,
    VariableWidthBlock,
    check,
    starts_of,
    total_of,
)
from lance_spark.encodings.buffer_compression import refuse_buffer_compression
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.registry import parse, register
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_values import STRINGS
from lance_spark.kernels.offsets import concatenate_variable, plan_variable_chunks, write_variable_chunks

if TYPE_CHECKING:
    from typing_extensions import Self

_FILL = ord("H")
"""Pads a chunk to a multiple of the offset size; the reference reader rejects other lengths."""
_MAX_INT32_BYTES = (1 << 31) - 1


@register
@dataclass(frozen=True, slots=True)
class Variable(MiniBlockEncoding, BlockEncoding, PerValueEncoding):
    """`bits_per_offset` is 32 or 64."""

    wire_name: ClassVar[str] = "variable"
    bits_per_offset: int

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        refuse_buffer_compression(message, "values", cls.wire_name)
        bits_per_offset = parse(message.offsets, Flat).bits_per_value
        if bits_per_offset not in (32, 64):
            raise CorruptFileError(f"variable: offsets of {bits_per_offset} bits")
        return cls(bits_per_offset)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(variable=pb.Variable(offsets=Flat(self.bits_per_offset).to_proto()))

    @property
    def num_buffers(self) -> int:
        return 1

    @classmethod
    def encode_mini_blocks(cls, block: VariableWidthBlock, limits: ChunkLimits) -> EncodedMiniBlocks[Self]:
        """Chunks of up to `limits.max_bytes`, including offsets."""
        codec = cls(block.bits_per_offset)
        offset_bytes = block.bits_per_offset // 8
        counts = np.zeros(max(block.num_values, 1), np.int64)
        sizes = np.full_like(counts, offset_bytes)
        num_chunks = plan_variable_chunks(
            block.offsets.address,
            offset_bytes,
            block.num_values,
            limits.max_values,
            limits.max_bytes,
            address_of(counts),
            address_of(sizes),
        )
        counts, sizes = (table[: max(num_chunks, 1)].copy() for table in (counts, sizes))
        target = pa.allocate_buffer(total_of(sizes))
        write_variable_chunks(
            block.offsets.address,
            block.data.address,
            offset_bytes,
            address_of(counts),
            address_of(sizes),
            len(counts),
            _FILL,
            target.address,
        )
        return EncodedMiniBlocks(codec, [Chunks(target, starts_of(sizes), sizes, counts)])

    @classmethod
    def encode_block(cls, block: VariableWidthBlock) -> EncodedBlock[Self]:
        """Header words, offsets, bytes."""
        word = "I" if block.bits_per_offset == 32 else "Q"
        offsets = block.offsets.slice(0, (block.num_values + 1) * block.bits_per_offset // 8)
        header_bytes = block.bits_per_offset // 4
        header = struct.pack(f"<2{word}", block.bits_per_offset, header_bytes + offsets.size)
        last = int.from_bytes(offsets.slice(offsets.size - block.bits_per_offset // 8).to_pybytes(), "little")
        data = b"".join((header, offsets, block.data.slice(0, last)))
        return EncodedBlock(cls(block.bits_per_offset), pa.py_buffer(data), block.num_values)

    @classmethod
    def encode_values(cls, block: VariableWidthBlock) -> EncodedValues[Self]:
        """The values unchanged."""
        return EncodedValues(cls(block.bits_per_offset), block)

    def decode_mini_blocks(self, buffers: list[Chunks]) -> VariableWidthBlock:
        chunks = buffers[0]
        return self._joined(chunks, chunks.starts, chunks.starts, chunks.sizes)

    def locate(self, chunks: Chunks) -> Int64Array:
        """``int64[5, n]``: of each mini-block chunk the addresses of its offsets, of offset 0, of its bytes and of
        their end, and its number of values. What its offsets say is not checked.

        Raises:
            CorruptFileError: a chunk is too short for its offsets.
        """
        num_values, offset_bytes = chunks.num_values, self.bits_per_offset // 8
        if bool(((num_values >= chunks.sizes // offset_bytes) & (num_values > 0)).any()):
            raise CorruptFileError("variable: a chunk is too short for its offsets")
        starts = chunks.starts + chunks.data.address
        ends = starts + chunks.sizes
        return np.stack([starts, starts, np.minimum(starts + (num_values + 1) * offset_bytes, ends), ends, num_values])

    @property
    def value_form(self) -> ValueForm | None:
        return ValueForm(STRINGS, self.bits_per_offset)

    def decode_blocks(self, chunks: Chunks) -> VariableWidthBlock:
        headers = [
            self._header(chunks.data.slice(start, size), count) if count else (0, 0)
            for start, size, count in zip(
                chunks.starts.tolist(), chunks.sizes.tolist(), chunks.num_values.tolist(), strict=True
            )
        ]
        places = np.array(headers, np.int64).reshape(-1, 2)
        origins = chunks.starts + places[:, 1]
        return self._joined(chunks, chunks.starts + places[:, 0], origins, chunks.sizes - places[:, 1])

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> VariableWidthBlock:
        if not isinstance(block, VariableWidthBlock):
            raise CorruptFileError("variable: the page holds values of equal width")
        return block

    def _header(self, data: pa.Buffer, num_values: int) -> tuple[int, int]:
        """The positions of the offsets and the bytes of a block."""
        word_bytes = self.bits_per_offset // 8
        word = "I" if word_bytes == 4 else "Q"
        head = data.slice(0, min(data.size, 32)).to_pybytes()
        if len(head) < 2 * word_bytes + 1:
            raise CorruptFileError(f"variable: a block of {len(head)} bytes is shorter than its header")
        if any(head[1:4]):
            bits, count, data_start = struct.unpack_from(f"<B{word}{word}", head + bytes(8))
            offset_start = 1 + 2 * word_bytes
            if count != num_values:
                raise CorruptFileError(f"variable: a block of {num_values} values says it has {count}")
        else:
            bits, data_start = struct.unpack_from(f"<{word}{word}", head)
            offset_start = 2 * word_bytes
        if bits != self.bits_per_offset:
            raise CorruptFileError(
                f"variable: a block with {bits}-bit offsets where {self.bits_per_offset} are promised"
            )
        if not offset_start <= data_start <= data.size:
            raise CorruptFileError(f"variable: the bytes of a block of {data.size} bytes begin at {data_start}")
        return offset_start, data_start

    def _joined(
        self, chunks: Chunks, offset_starts: Int64Array, origins: Int64Array, limits: Int64Array
    ) -> VariableWidthBlock:
        """All chunks joined to one block; offsets are widened to 64 bits if 32 are not enough."""
        offset_bytes = self.bits_per_offset // 8
        num_values = np.ascontiguousarray(chunks.num_values)
        if bool((num_values > chunks.sizes // offset_bytes).any()):
            raise CorruptFileError("variable: a chunk is too short for its offsets")
        total = int(num_values.sum())
        max_bytes = int(limits.sum())
        target_offset_bytes = 4 if offset_bytes == 4 and max_bytes <= _MAX_INT32_BYTES else 8
        offsets = pa.allocate_buffer((total + 1) * target_offset_bytes)
        data = pa.allocate_buffer(max_bytes)
        tables = [np.ascontiguousarray(table) for table in (offset_starts, origins, limits)]
        filled = concatenate_variable(
            chunks.data.address,
            chunks.data.size,
            *map(address_of, tables),
            address_of(num_values),
            len(num_values),
            offset_bytes,
            target_offset_bytes,
            offsets.address,
            data.address,
        )
        check(filled, self.wire_name)
        return VariableWidthBlock(offsets, data.slice(0, filled), target_offset_bytes * 8, total)
