"""Bitpacked: integers truncated to their low bits, back to back, LSB first (`lance.encodings.Bitpacked`).

Value i is bits ``[i * W, (i + 1) * W)`` of the buffer. With `signed` the highest of the W bits is the sign. The values
1, 2, 3 with W = 3 are the bits 001 010 011 from the right: the bytes ``0xd1 0x00``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.v2_0 import unpack_contiguous
from lance_spark.layouts.v2_0.base import (
    ArrayEncoding,
    BufferReference,
    FileReads,
    PageBuffers,
    Selection,
    read_located,
    require_type,
)
from lance_spark.layouts.v2_0.registry import register

WORD_BITS = (8, 16, 32, 64)
"""Widths of the integers that can be packed."""


@register
@dataclass(frozen=True, slots=True)
class Bitpacked(ArrayEncoding):
    """Words of `uncompressed_bits_per_value` bits, packed to `compressed_bits_per_value`."""

    wire_name: ClassVar[str] = "bitpacked"
    compressed_bits_per_value: int
    uncompressed_bits_per_value: int
    buffer: BufferReference
    signed: bool

    @classmethod
    def from_proto(cls, message: Any) -> Bitpacked:
        packed, word_bits = message.compressed_bits_per_value, message.uncompressed_bits_per_value
        if word_bits not in WORD_BITS or not 1 <= packed <= word_bits:
            raise CorruptFileError(f"bitpacked: words of {word_bits} bits packed to {packed}")
        return cls(packed, word_bits, BufferReference.from_proto(message.buffer), message.signed)

    @property
    def bits_per_value(self) -> int:
        return self.uncompressed_bits_per_value

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        word_bits, packed = self.uncompressed_bits_per_value, self.compressed_bits_per_value
        require_type(
            pa.types.is_primitive(arrow_type) and arrow_type.bit_width == word_bits, self.wire_name, arrow_type
        )
        first_bits = selection.ranges.starts * packed
        first_bytes, end_bytes = first_bits >> 3, (selection.ranges.stops * packed + 7) >> 3
        data, begins = yield from read_located(self.buffer.locate(buffers), first_bytes, end_bytes)
        places = begins * 8 + (first_bits & 7)
        counts = selection.ranges.stops - selection.ranges.starts
        target = pa.allocate_buffer(selection.num_values * word_bits // 8)
        unpack_contiguous(
            data.address, address_of(places), address_of(counts), len(counts), packed, self.signed, word_bits // 8,
            target.address,
        )  # fmt: skip
        return pa.Array.from_buffers(arrow_type, selection.num_values, [None, target])
