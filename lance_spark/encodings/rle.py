"""Run length encoding (`lance.encodings21.Rle`), with runs of at most 255 values.

In mini-blocks the run values and the run lengths (one byte each) are two buffers. A standalone block is a u64 with the
size of the run values, the run values, and the run lengths.
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
    EncodedBlocks,
    EncodedMiniBlocks,
    MiniBlockEncoding,
    ValueForm,
)
from lance_spark.encodings.blocks import (
    ChunkLimits,
    Chunks,
    FixedWidthBlock,
    Int64Array,
    check,
    equal_chunks,
    starts_of,
    total_of,
)
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.inline_bitpacking import WORD_BITS
from lance_spark.encodings.registry import parse, register
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_levels import LEVEL_BITS, RUN_LEVELS
from lance_spark.kernels.layouts.pick_values import RUNS
from lance_spark.kernels.rle import MAX_RUN, SLACK_BYTES, bound_runs, decode_runs, encode_runs
from lance_spark.kernels.slices import scatter_slices

if TYPE_CHECKING:
    from typing_extensions import Self

_HEADER_BYTES = 8
_LENGTH_BITS = 8


def measure_runs(block: FixedWidthBlock, counts: Int64Array) -> Int64Array:
    """Upper bounds of the number of runs in chunks of `counts[i]` values; words of 8, 16, 32 or 64 bits."""
    bounds = np.zeros(len(counts), np.int64)
    bound_runs(block.data.address, address_of(counts), len(counts), block.bits_per_value // 8, address_of(bounds))
    return bounds


def _encoded_runs(block: FixedWidthBlock, counts: Int64Array, bounds: Int64Array) -> tuple[Chunks, Chunks]:
    word_bytes = block.bits_per_value // 8
    places = starts_of(bounds)
    most = total_of(bounds)
    values = pa.allocate_buffer(most * word_bytes)
    lengths = pa.allocate_buffer(most)
    runs = np.zeros(len(counts), np.int64)
    encode_runs(
        block.data.address,
        address_of(counts),
        len(counts),
        word_bytes,
        address_of(places),
        values.address,
        lengths.address,
        address_of(runs),
    )
    return Chunks(values, places * word_bytes, runs * word_bytes, counts), Chunks(lengths, places, runs, counts)


@register
@dataclass(frozen=True, slots=True)
class Rle(MiniBlockEncoding, BlockEncoding):
    """Runs of values of `bits_per_value` (8, 16, 32 or 64) bits."""

    wire_name: ClassVar[str] = "rle"
    bits_per_value: int

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        bits_per_value = parse(message.values, Flat).bits_per_value
        bits_per_length = parse(message.run_lengths, Flat).bits_per_value
        if bits_per_value not in WORD_BITS or bits_per_length != _LENGTH_BITS:
            raise UnsupportedFeatureError(
                f"rle with values of {bits_per_value} bits and run lengths of {bits_per_length} bits", feature="rle"
            )
        return cls(bits_per_value)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            rle=pb.Rle(values=Flat(self.bits_per_value).to_proto(), run_lengths=Flat(_LENGTH_BITS).to_proto())
        )

    @property
    def num_buffers(self) -> int:
        return 2

    @classmethod
    def encode_mini_blocks(cls, block: FixedWidthBlock, limits: ChunkLimits) -> EncodedMiniBlocks[Self]:
        """Chunks with equal numbers of values, as many as fit in the chunk with the shortest runs."""
        per_chunk = limits.max_values
        while True:
            counts = equal_chunks(block.num_values, per_chunk)
            bounds = measure_runs(block, counts)
            if per_chunk <= 2 or int(bounds.max()) * (block.bits_per_value // 8) <= limits.max_bytes:
                break
            per_chunk //= 2
        values, lengths = _encoded_runs(block, counts, bounds)
        return EncodedMiniBlocks(cls(block.bits_per_value), [values, lengths])

    @classmethod
    def encode_blocks(cls, block: FixedWidthBlock, counts: Int64Array) -> EncodedBlocks[Self]:
        """Blocks of `counts[i]` values."""
        values, lengths = _encoded_runs(block, counts, measure_runs(block, counts))
        sizes = _HEADER_BYTES + values.sizes + lengths.sizes
        starts = starts_of(sizes)
        target = pa.allocate_buffer(total_of(sizes))
        joined = np.frombuffer(target, np.uint8)
        heads = starts[:, None] + np.arange(_HEADER_BYTES)
        joined[heads] = values.sizes.astype("<i8")[:, None].view(np.uint8)
        for part, places in ((values, starts + _HEADER_BYTES), (lengths, starts + _HEADER_BYTES + values.sizes)):
            scatter_slices(
                part.data.address,
                address_of(part.starts),
                address_of(part.sizes),
                len(counts),
                address_of(places),
                target.address,
            )
        return EncodedBlocks(cls(block.bits_per_value), Chunks(target, starts, sizes, counts))

    def decode_mini_blocks(self, buffers: list[Chunks]) -> FixedWidthBlock:
        values, lengths = buffers
        num_values = np.ascontiguousarray(values.num_values)
        tables = [np.ascontiguousarray(table) for table in (values.starts, values.sizes, lengths.starts, lengths.sizes)]
        if bool((num_values > tables[3] * MAX_RUN).any()):
            raise CorruptFileError("rle: a chunk has too few runs for its values")
        total = int(num_values.sum())
        word_bytes = self.bits_per_value // 8
        target = pa.allocate_buffer(total * word_bytes + SLACK_BYTES)
        status = decode_runs(
            values.data.address,
            address_of(tables[0]),
            address_of(tables[1]),
            lengths.data.address,
            address_of(tables[2]),
            address_of(tables[3]),
            address_of(num_values),
            len(num_values),
            word_bytes,
            target.address,
        )
        check(status, self.wire_name)
        return FixedWidthBlock(target.slice(0, total * word_bytes), self.bits_per_value, total)

    @property
    def value_form(self) -> ValueForm | None:
        return ValueForm(RUNS, self.bits_per_value)

    @property
    def level_bits(self) -> int | None:
        return RUN_LEVELS if self.bits_per_value == LEVEL_BITS else None

    def decode_blocks(self, chunks: Chunks) -> FixedWidthBlock:
        filled = chunks.num_values > 0
        starts, sizes, num_values = chunks.starts[filled], chunks.sizes[filled], chunks.num_values[filled]
        if bool((sizes < _HEADER_BYTES).any()):
            raise CorruptFileError("rle: a block is shorter than its header")
        data = np.frombuffer(chunks.data, np.uint8)
        heads = starts[:, None] + np.arange(_HEADER_BYTES)
        value_bytes = np.ascontiguousarray(data[heads]).view("<i8").reshape(-1)
        num_runs = sizes - _HEADER_BYTES - value_bytes
        if bool(((value_bytes < 0) | (value_bytes > sizes - _HEADER_BYTES)).any()):
            raise CorruptFileError("rle: the values of a block reach over its end")
        if bool((num_runs * (self.bits_per_value // 8) != value_bytes).any()):
            raise CorruptFileError("rle: a block has not one value for each run")
        value_starts = starts + _HEADER_BYTES
        values = Chunks(chunks.data, value_starts, value_bytes, num_values)
        lengths = Chunks(chunks.data, value_starts + value_bytes, num_runs, num_values)
        return self.decode_mini_blocks([values, lengths])
