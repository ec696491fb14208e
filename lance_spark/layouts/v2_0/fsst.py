"""Fsst: strings whose bytes are codes of a symbol table (`lance.encodings.Fsst`).

The ends of the inner `Binary` refer to the codes. Every string is compressed separately, so that single strings can
be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.encodings.blocks import VariableWidthBlock
from lance_spark.encodings.fsst import Fsst as FsstCodec
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.layouts.v2_0.base import ArrayEncoding, FileReads, PageBuffers, Selection, require_type
from lance_spark.layouts.v2_0.binary import WIDE_OFFSETS, Binary
from lance_spark.layouts.v2_0.registry import parse, register


@register
@dataclass(frozen=True, slots=True)
class Fsst(ArrayEncoding):
    """`binary` has the codes of the strings, `symbol_table` is as in the wire format."""

    wire_name: ClassVar[str] = "fsst"
    binary: Binary
    symbol_table: bytes

    @classmethod
    def from_proto(cls, message: Any) -> Fsst:
        binary = parse(message.binary)
        if not isinstance(binary, Binary):
            raise CorruptFileError(f"fsst: the codes are {binary.wire_name} instead of binary")
        return cls(binary, message.symbol_table)

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        require_type(arrow_type in WIDE_OFFSETS, self.wire_name, arrow_type)
        offset_bits = 64 if WIDE_OFFSETS[arrow_type] else 32
        rows, codes = yield from self.binary.read_rows(buffers, selection, WIDE_OFFSETS[arrow_type])
        block = VariableWidthBlock(rows.offsets, codes, offset_bits, rows.num_values)
        decoded = FsstCodec(self.symbol_table, Variable(offset_bits)).decode_values(block)
        if decoded.bits_per_offset != offset_bits:
            raise InvalidInputError("more than 2 GiB of strings at once; read fewer rows at a time")
        parts = [rows.validity, decoded.offsets, decoded.data]
        return pa.Array.from_buffers(arrow_type, rows.num_values, parts, rows.num_nulls)
