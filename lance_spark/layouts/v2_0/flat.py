"""Flat: values of equal width, back to back (`lance.encodings.Flat`); booleans and validity are one bit, LSB first.

A buffer can be compressed. It is then read completely for any selection, and the bits are those of the decompressed
buffer. Scheme ``zstd`` is a u64 decompressed size and a zstd frame (old releases: the bare frame), ``lz4`` a u32
decompressed size and a raw LZ4 block, ``none`` no compression.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.v2_0 import gather_bits
from lance_spark.layouts.base import FileRange, RowRanges
from lance_spark.layouts.read_spans import gathered
from lance_spark.layouts.v2_0.base import (
    ArrayEncoding,
    BufferReference,
    FileReads,
    PageBuffers,
    PagesSelection,
    Selection,
    aligned,
    read_bytes,
    read_located,
    read_slices,
    require_type,
)
from lance_spark.layouts.v2_0.compression import DECOMPRESSORS
from lance_spark.layouts.v2_0.registry import register

_MAX_BITS_PER_VALUE = 2**20


@register
@dataclass(frozen=True, slots=True)
class Flat(ArrayEncoding):
    """Values of `width` bits in `buffer`; `scheme` is the compression of the buffer, if any."""

    wire_name: ClassVar[str] = "flat"
    width: int
    buffer: BufferReference
    scheme: str = "none"

    @classmethod
    def from_proto(cls, message: Any) -> Flat:
        width = message.bits_per_value
        # Arrow's fixed-size binary of 0 bytes has values of 0 bits.
        if width != 1 and (width % 8 or width > _MAX_BITS_PER_VALUE):
            raise CorruptFileError(f"flat: values of {width} bits")
        scheme = message.compression.scheme if message.HasField("compression") else "none"
        if scheme not in DECOMPRESSORS:
            raise UnsupportedFeatureError(
                f"a buffer is compressed with {scheme!r}; supported are {', '.join(DECOMPRESSORS)}",
                feature=f"compression {scheme}",
                version="2.0",
            )
        return cls(width, BufferReference.from_proto(message.buffer), scheme)

    @property
    def bits_per_value(self) -> int:
        return self.width

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        require_type(_bit_width(arrow_type) == self.width, f"flat({self.width})", arrow_type)
        if self.scheme != "none":
            data = yield from self._read_compressed(buffers, selection)
        elif self.width == 1:
            data = yield from self._read_bits(buffers, selection.ranges)
        else:
            starts, stops = self._byte_ranges(selection.ranges)
            data = yield from read_bytes(self.buffer.locate(buffers), starts, stops)
        # For a width such as 96 bits the widest load is its largest power-of-two divisor.
        data = aligned(data, min(8, max(1, (self.width & -self.width) // 8)))
        return pa.Array.from_buffers(arrow_type, selection.num_values, [None, data])

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        return ("flat", self.width) if self.scheme == "none" and self.width else None

    def read_pages(
        self,
        encodings: Sequence[ArrayEncoding],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        require_type(_bit_width(arrow_type) == self.width, f"flat({self.width})", arrow_type)
        located = [
            each.buffer.locate(page) for each, page in zip(encodings, buffers, strict=True) if isinstance(each, Flat)
        ]
        ranges = selection.ranges
        if self.width == 1:
            wanted = selection.with_ranges(ranges.starts >> 3, (ranges.stops + 7) >> 3)
            data, places = yield from read_slices(located, wanted)
            bits = _pick_bits(data, places, ranges)
            return pa.Array.from_buffers(arrow_type, selection.num_values, [None, bits])
        wanted = selection.with_ranges(*self._byte_ranges(ranges))
        data, places = yield from read_slices(located, wanted)
        values = gathered(data, places, wanted.ranges.stops - wanted.ranges.starts)
        return pa.Array.from_buffers(arrow_type, selection.num_values, [None, values])

    def _byte_ranges(self, ranges: RowRanges) -> tuple[Int64Array, Int64Array]:
        value_bytes = self.width // 8
        return ranges.starts * value_bytes, ranges.stops * value_bytes

    def _read_bits(self, buffers: PageBuffers, ranges: RowRanges) -> FileReads[pa.Buffer]:
        data, places = yield from read_located(self.buffer.locate(buffers), ranges.starts >> 3, (ranges.stops + 7) >> 3)
        return _pick_bits(data, places, ranges)

    def _read_compressed(self, buffers: PageBuffers, selection: Selection) -> FileReads[pa.Buffer]:
        located = self.buffer.locate(buffers)
        [compressed] = yield [FileRange(*located)]
        if self.width == 1:
            raise UnsupportedFeatureError("compressed booleans", feature="compressed booleans", version="2.0")
        starts, stops = self._byte_ranges(selection.ranges)
        needed = int(stops.max(initial=0))
        data = DECOMPRESSORS[self.scheme](compressed, needed)
        if needed > data.size:
            raise CorruptFileError(f"a compressed buffer holds {data.size} bytes instead of {needed}")
        return gathered(data, starts, stops - starts)


def _bit_width(arrow_type: pa.DataType) -> int | None:
    """Bits of a value of `arrow_type`, None without a fixed width."""
    if pa.types.is_nested(arrow_type) or pa.types.is_dictionary(arrow_type):
        return None
    try:
        return int(arrow_type.bit_width)
    except ValueError:
        return None


def _pick_bits(data: pa.Buffer, places: Int64Array, ranges: RowRanges) -> pa.Buffer:
    """The bits of `ranges` back to back; the bytes that contain those of each range begin at its place in `data`."""
    skipped = ranges.starts & 7
    if len(places) == 0 or (len(places) == 1 and skipped[0] == 0):
        return data
    lengths = ranges.stops - ranges.starts
    first_bits = places * 8 + skipped
    target = pa.py_buffer(np.zeros((ranges.num_rows + 7) // 8, np.uint8))
    gather_bits(data.address, address_of(first_bits), address_of(lengths), len(lengths), target.address)
    return target
