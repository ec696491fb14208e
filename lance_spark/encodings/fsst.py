"""FSST: byte strings as one-byte codes for symbols of up to 8 bytes (`lance.encodings21.Fsst`).

The symbol table is a u64 (high half ``0x46535354``, bit 24 = actually compressed, low byte = number of symbols n), n
symbols of 8 bytes, n lengths of one byte, and padding up to 2312 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from lance_spark.encodings.blocks import ChunkLimits, Chunks, FixedWidthBlock, VariableWidthBlock
from lance_spark.encodings.fsst_symbols import Matcher, Sample
from lance_spark.encodings.registry import parse, register
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.compression.fsst import BATCH_CODES, MAX_SYMBOL_BYTES, SLACK_BYTES, decode_symbols
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_values import STRINGS

if TYPE_CHECKING:
    from typing_extensions import Self

_SAMPLED_CODES = 4096
_FEW_CODES = 2048
"""Up to this many codes the most that they can be is allocated: to sample them takes longer than to decode them."""

_MAGIC = 0x46535354
_COMPRESSED_BIT = 1 << 24
_HEADER_BYTES = 8
_TABLE_BYTES = _HEADER_BYTES + 256 * (MAX_SYMBOL_BYTES + 1)


@dataclass(frozen=True, slots=True)
class Symbols:
    """Symbols as u64[256] (little-endian) and their lengths as u8[256], 0 for codes without a symbol."""

    symbols: np.ndarray[Any, np.dtype[np.uint64]]
    lengths: np.ndarray[Any, np.dtype[np.uint8]]


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
        return self._decoded(self.values.decode_mini_blocks(buffers))

    @property
    def value_form(self) -> ValueForm | None:
        return ValueForm(STRINGS, self.values.bits_per_offset, symbol_table=self.symbol_table)

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> VariableWidthBlock:
        return self._decoded(self.values.decode_values(block))

    def _decoded(self, block: VariableWidthBlock) -> VariableWidthBlock:
        symbols = symbols_of(self.symbol_table)
        if symbols is None:
            return block
        data = pa.allocate_buffer(_expected_bytes(block.data, symbols), resizable=True)
        wide = block.bits_per_offset == 64 or block.data.size * MAX_SYMBOL_BYTES + SLACK_BYTES >= 1 << 31
        offset_bytes = 8 if wide else 4
        offsets = pa.allocate_buffer((block.num_values + 1) * offset_bytes)
        ends = np.frombuffer(offsets, f"<i{offset_bytes}")
        ends[0] = 0
        places = np.empty(BATCH_CODES + 1, np.uint32)
        done = 0
        while True:
            done = decode_symbols(
                block.offsets.address,
                block.bits_per_offset // 8,
                block.data.address,
                done,
                block.num_values,
                address_of(symbols.symbols),
                address_of(symbols.lengths),
                offset_bytes,
                offsets.address,
                data.address,
                data.size,
                address_of(places),
            )
            if done < 0:
                raise CorruptFileError(f"fsst: a code from value {~done} on has no symbol, or an escape no literal")
            if done == block.num_values:
                break
            data.resize(_grown(block, done, data.size))
        return _narrowed(
            VariableWidthBlock(offsets, data.slice(0, int(ends[-1])), offset_bytes * 8, block.num_values), block
        )


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
    return Symbols(symbols, lengths)


def _table(matcher: Matcher) -> bytes:
    """The symbol table in the wire format. Bits 8 to 23 of the header are only used to search for symbols."""
    count = len(matcher.symbols)
    header = _MAGIC << 32 | _COMPRESSED_BIT | count
    table = header.to_bytes(8, "little") + matcher.symbols.tobytes() + matcher.lengths.astype(np.uint8).tobytes()
    return table.ljust(_TABLE_BYTES, b"\0")


def _expected_bytes(codes: pa.Buffer, symbols: Symbols) -> int:
    """Estimated decoded size of `codes`, from a sample; the buffer grows if it is too small."""
    if codes.size <= _FEW_CODES:
        return int(codes.size) * MAX_SYMBOL_BYTES + SLACK_BYTES
    sample = np.frombuffer(codes, np.uint8)[:: codes.size // _SAMPLED_CODES + 1]
    bytes_per_code = float(symbols.lengths[sample].mean()) if len(sample) else 1.0
    return int(codes.size * bytes_per_code * 1.1) + SLACK_BYTES + BATCH_CODES * MAX_SYMBOL_BYTES


def _grown(block: VariableWidthBlock, done: int, size: int) -> int:
    """A new size with room for at least value `done`, in the worst case."""
    ends = np.frombuffer(block.offsets, f"<i{block.bits_per_offset // 8}", block.num_values + 1)
    value_bytes = int(ends[done + 1]) - int(ends[done])
    return size + size // 2 + value_bytes * MAX_SYMBOL_BYTES + SLACK_BYTES


def _narrowed(decoded: VariableWidthBlock, block: VariableWidthBlock) -> VariableWidthBlock:
    """With offsets of the original width, if they fit."""
    if block.bits_per_offset == decoded.bits_per_offset or decoded.data.size >= 1 << 31:
        return decoded
    ends = np.frombuffer(decoded.offsets, "<i8")
    return replace(decoded, offsets=pa.py_buffer(ends.astype(np.int32)), bits_per_offset=32)
