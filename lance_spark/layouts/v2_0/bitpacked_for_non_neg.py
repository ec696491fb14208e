"""BitpackedForNonNeg: integers in FastLanes blocks of 1024 with the same width (`lance.encodings.BitpackedForNonNeg`).

Block k is the bytes ``[k * 128 * W, (k + 1) * 128 * W)`` of the buffer, in the order of `kernels.bitpack`; the last
block is as long as the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Chunks, Int64Array
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.bitpack import BLOCK_BYTES_PER_BIT, BLOCK_VALUES
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.read_spans import gathered
from lance_spark.layouts.v2_0.base import (
    EMPTY,
    ArrayEncoding,
    BufferReference,
    FileReads,
    PageBuffers,
    Selection,
    read_bytes,
    require_type,
)
from lance_spark.layouts.v2_0.bitpacked import WORD_BITS
from lance_spark.layouts.v2_0.registry import register


@register
@dataclass(frozen=True, slots=True)
class BitpackedForNonNeg(ArrayEncoding):
    """Words of `uncompressed_bits_per_value` bits, packed to `compressed_bits_per_value`."""

    wire_name: ClassVar[str] = "bitpacked_for_non_neg"
    compressed_bits_per_value: int
    uncompressed_bits_per_value: int
    buffer: BufferReference

    @classmethod
    def from_proto(cls, message: Any) -> BitpackedForNonNeg:
        packed, word_bits = message.compressed_bits_per_value, message.uncompressed_bits_per_value
        if word_bits not in WORD_BITS or not 1 <= packed <= word_bits:
            raise CorruptFileError(f"bitpacked_for_non_neg: words of {word_bits} bits packed to {packed}")
        return cls(packed, word_bits, BufferReference.from_proto(message.buffer))

    @property
    def bits_per_value(self) -> int:
        return self.uncompressed_bits_per_value

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        word_bits, packed = self.uncompressed_bits_per_value, self.compressed_bits_per_value
        require_type(
            pa.types.is_primitive(arrow_type) and arrow_type.bit_width == word_bits, self.wire_name, arrow_type
        )
        first_blocks, end_blocks, places = blocks_of(selection.ranges)
        block_bytes = packed * BLOCK_BYTES_PER_BIT
        data = yield from read_bytes(self.buffer.locate(buffers), first_blocks * block_bytes, end_blocks * block_bytes)
        chunks = Chunks.single(data, int((end_blocks - first_blocks).sum()) * BLOCK_VALUES)
        words = OutOfLineBitpacking(word_bits, packed).decode_blocks(chunks).data
        counts = (selection.ranges.stops - selection.ranges.starts) * (word_bits // 8)
        starts = places * (word_bits // 8)
        target = gathered(words, starts, counts) if len(starts) else EMPTY
        return pa.Array.from_buffers(arrow_type, selection.num_values, [None, target])


def blocks_of(ranges: RowRanges) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The blocks of ascending ranges: first and end of each run of blocks, and each range's position in the runs."""
    firsts, ends = ranges.starts // BLOCK_VALUES, (ranges.stops + BLOCK_VALUES - 1) // BLOCK_VALUES
    # A range that begins in the last block of the preceding range does not read that block again.
    opens_run = np.ones(len(firsts), np.bool_)
    opens_run[1:] = firsts[1:] >= ends[:-1]
    run = np.cumsum(opens_run) - 1
    run_firsts = firsts[opens_run]
    run_ends = ends[np.append(opens_run[1:], True)] if len(ends) else ends
    before = np.cumsum(run_ends - run_firsts) - (run_ends - run_firsts)
    places: Int64Array = (before[run] - run_firsts[run]) * BLOCK_VALUES + ranges.starts
    return run_firsts, run_ends, places
