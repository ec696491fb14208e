"""FSST: byte strings as one-byte codes for symbols of up to 8 bytes (`lance.encodings21.Fsst`).

The symbol table is a u64 (high half ``0x46535354``, bit 24 = actually compressed, low byte = number of symbols n), n
symbols of 8 bytes, n lengths of one byte, and padding up to 2312 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import (
    CompressiveEncoding,
    EncodedMiniBlocks,
    EncodedValues,
    MiniBlockEncoding,
    PerValueEncoding,
    ValueForm,
)
from lance_spark.encodings.blocks import ChunkLimits, Chunks, FixedWidthBlock, Int64Array, VariableWidthBlock, total_of
from lance_spark.encodings.fsst_symbols import Matcher, Sample
from lance_spark.encodings.registry import parse, register
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.compression.fsst import (
    BATCH_CODES,
    MAX_SYMBOL_BYTES,
    SLACK_BYTES,
    decode_symbols,
    expected_bytes,
)
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_values import STRINGS

if TYPE_CHECKING:
    from typing_extensions import Self

_FEW_CODES = 2048
"""Up to this many codes the most that they can be is allocated: to sample them takes longer than to decode them."""

_MAGIC = 0x46535354
_COMPRESSED_BIT = 1 << 24
_HEADER_BYTES = 8
_TABLE_BYTES = _HEADER_BYTES + 256 * (MAX_SYMBOL_BYTES + 1)


@dataclass(frozen=True, slots=True)
class Symbols:
    """Symbols as u64[256] (little-endian) and their lengths as u8[256], 0 for codes without a symbol.

    `count` codes have one. `are_ascii`: all bytes of symbols are below 128.
    """

    symbols: np.ndarray[Any, np.dtype[np.uint64]]
    lengths: np.ndarray[Any, np.dtype[np.uint8]]
    count: int
    are_ascii: bool


@register
@dataclass(frozen=True, slots=True)
class Fsst(MiniBlockEncoding, PerValueEncoding):
    """`values` has the codes; `symbol_table` is as in the wire format."""

    wire_name: ClassVar[str] = "fsst"
    symbol_table: bytes
    values: Variable

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        codec = cls(message.symbol_table, parse(message.values, Variable))
        symbols_of(codec.symbol_table)
        return codec

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(fsst=pb.Fsst(symbol_table=self.symbol_table, values=self.values.to_proto()))

    @classmethod
    def encode_mini_blocks(
        cls, block: VariableWidthBlock, limits: ChunkLimits, matcher: Matcher | None = None
    ) -> EncodedMiniBlocks[Self]:
        """Every value compressed separately, with the symbols of `matcher`, or symbols chosen from a sample."""
        matcher = matcher or Matcher.train(Sample.of(block, 0.0))
        values = Variable.encode_mini_blocks(matcher.encode(block), limits)
        return EncodedMiniBlocks(cls(_table(matcher), values.encoding), values.buffers)

    @classmethod
    def encode_values(cls, block: VariableWidthBlock, matcher: Matcher | None = None) -> EncodedValues[Self]:
        """Every value compressed separately."""
        matcher = matcher or Matcher.train(Sample.of(block, 0.0))
        return EncodedValues(cls(_table(matcher), Variable(block.bits_per_offset)), matcher.encode(block))

    @property
    def num_buffers(self) -> int:
        return 1

    def decode_mini_blocks(self, buffers: list[Chunks]) -> VariableWidthBlock:
        symbols = symbols_of(self.symbol_table)
        if symbols is None:
            return self.values.decode_mini_blocks(buffers)
        return _decoded(self.values.locate(buffers[0]), self.values.bits_per_offset, symbols)

    @property
    def value_form(self) -> ValueForm | None:
        return ValueForm(STRINGS, self.values.bits_per_offset, symbol_table=self.symbol_table)

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> VariableWidthBlock:
        block, symbols = self.values.decode_values(block), symbols_of(self.symbol_table)
        if symbols is None:
            return block
        first = block.data.address
        rows = block.offsets.address, first, first, first + block.data.size, block.num_values
        return _decoded(np.array(rows, np.int64).reshape(5, 1), block.bits_per_offset, symbols)


def _decoded(chunks: Int64Array, bits_per_offset: int, symbols: Symbols) -> VariableWidthBlock:
    """The values of `chunks`, which are as for `decode_symbols`."""
    num_chunks, num_values = chunks.shape[1], total_of(chunks[4])
    most_bytes = total_of(chunks[3] - chunks[2]) * MAX_SYMBOL_BYTES + SLACK_BYTES
    data = pa.allocate_buffer(_expected_bytes(chunks, most_bytes, symbols), resizable=True)
    offset_bytes = 8 if bits_per_offset == 64 or most_bytes >= 1 << 31 else 4
    offsets = pa.allocate_buffer((num_values + 1) * offset_bytes)
    ends = np.frombuffer(offsets, f"<i{offset_bytes}")
    ends[0] = 0
    places, literals = np.empty(BATCH_CODES + 1, np.uint32), np.zeros(1, np.uint8)
    done = 0
    while True:
        done = decode_symbols(
            address_of(chunks),
            num_chunks,
            bits_per_offset // 8,
            done,
            address_of(symbols.symbols),
            address_of(symbols.lengths),
            symbols.count,
            offset_bytes,
            offsets.address,
            data.address,
            data.size,
            address_of(places),
            address_of(literals),
        )
        if done < 0:
            raise CorruptFileError(
                f"fsst: from value {~done} on, offsets fall or leave their chunk, or a code has no symbol or literal"
            )
        if done == num_values:
            break
        data.resize(min(most_bytes, 2 * data.size))
    is_ascii = symbols.are_ascii and int(literals[0]) < 128
    data = data.slice(0, int(ends[-1]))
    if offset_bytes * 8 > bits_per_offset and data.size < 1 << 31:
        offsets, offset_bytes = pa.py_buffer(ends.astype(np.int32)), 4
    return VariableWidthBlock(offsets, data, offset_bytes * 8, num_values, is_ascii)


@lru_cache(maxsize=64)
def symbols_of(table: bytes) -> Symbols | None:
    """The symbols of a table of the wire format; None if the data is not compressed. The last tables are kept.

    Raises:
        CorruptFileError: the table is inconsistent.
    """
    header = int.from_bytes(table[:_HEADER_BYTES], "little")
    if len(table) < _HEADER_BYTES or header >> 32 != _MAGIC:
        raise CorruptFileError("fsst: the symbol table has no header")
    if not header & _COMPRESSED_BIT:
        return None
    count = header & 0xFF
    if len(table) < _HEADER_BYTES + count * (MAX_SYMBOL_BYTES + 1):
        raise CorruptFileError(f"fsst: {len(table)} bytes cannot hold {count} symbols")
    symbols = np.zeros(256, np.uint64)
    lengths = np.zeros(256, np.uint8)
    symbols[:count] = np.frombuffer(table, "<u8", count, _HEADER_BYTES)
    lengths[:count] = np.frombuffer(table, np.uint8, count, _HEADER_BYTES + count * MAX_SYMBOL_BYTES)
    if count and (int(lengths[:count].min()) < 1 or int(lengths.max()) > MAX_SYMBOL_BYTES):
        raise CorruptFileError("fsst: a symbol has not 1 to 8 bytes")
    return Symbols(symbols, lengths, count, max(table[_HEADER_BYTES : _HEADER_BYTES + 8 * count], default=0) < 128)


def _table(matcher: Matcher) -> bytes:
    """The symbol table in the wire format. Bits 8 to 23 of the header are only used to search for symbols."""
    count = len(matcher.symbols)
    header = _MAGIC << 32 | _COMPRESSED_BIT | count
    table = header.to_bytes(8, "little") + matcher.symbols.tobytes() + matcher.lengths.astype(np.uint8).tobytes()
    return table.ljust(_TABLE_BYTES, b"\0")


def _expected_bytes(chunks: Int64Array, most_bytes: int, symbols: Symbols) -> int:
    """Estimated bytes of the values of `chunks`; the buffer grows if it is too small."""
    if most_bytes <= _FEW_CODES * MAX_SYMBOL_BYTES:
        return most_bytes
    expected: int = expected_bytes(address_of(chunks), chunks.shape[1], address_of(symbols.lengths))
    return min(most_bytes, expected + expected // 10 + SLACK_BYTES + BATCH_CODES * MAX_SYMBOL_BYTES)
