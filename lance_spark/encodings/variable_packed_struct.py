"""Packed struct with fields of variable width (`lance.encodings21.VariablePackedStruct`).

A row is one variable-width value of a full-zip page: its fields back to back, those of variable width preceded by
their length. Each field has its own encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import CompressiveEncoding, EncodedValues, PerValueEncoding
from lance_spark.encodings.blocks import (
    MAX_UNBACKED_BYTES,
    Block,
    FixedSizeListBlock,
    FixedWidthBlock,
    Int64Array,
    PackedStructBlock,
    VariableWidthBlock,
    check,
    starts_of,
)
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.registry import parse, register
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.packed_rows import join_fields, locate_fields
from lance_spark.kernels.slices import concatenate

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_BITS_PER_VALUE = 1 << 34


@dataclass(frozen=True, slots=True)
class FieldEncoding:
    """One field (`VariablePackedStruct.FieldEncoding`): either `bits_per_value` or `bits_per_length` is not 0."""

    value: PerValueEncoding
    bits_per_value: int
    bits_per_length: int

    @classmethod
    def from_proto(cls, message: Any) -> Self:
        """Raises `CorruptFileError` if the width of the field is missing or invalid."""
        layout = message.WhichOneof("layout")
        if layout is None:
            raise CorruptFileError(
                "variable_packed_struct: a field says neither its width nor the width of its lengths"
            )
        if layout == "bits_per_length" and message.bits_per_length not in (8, 16, 32, 64):
            raise CorruptFileError(f"variable_packed_struct: lengths of {message.bits_per_length} bits")
        if layout == "bits_per_value" and (message.bits_per_value % 8 or message.bits_per_value > _MAX_BITS_PER_VALUE):
            raise UnsupportedFeatureError(
                f"a packed struct with a field of {message.bits_per_value} bits", feature="variable_packed_struct"
            )
        return cls(parse(message.value, PerValueEncoding), message.bits_per_value, message.bits_per_length)

    def to_proto(self) -> Any:
        """The message."""
        if self.bits_per_length:
            layout = {"bits_per_length": self.bits_per_length}
        else:
            layout = {"bits_per_value": self.bits_per_value}
        return pb.VariablePackedStruct.FieldEncoding(value=self.value.to_proto(), **layout)


@register
@dataclass(frozen=True, slots=True)
class VariablePackedStruct(PerValueEncoding):
    """`fields` in the order of the struct's children."""

    wire_name: ClassVar[str] = "variable_packed_struct"
    fields: tuple[FieldEncoding, ...]

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        return cls(tuple(FieldEncoding.from_proto(field) for field in message.fields))

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            variable_packed_struct=pb.VariablePackedStruct(fields=[field.to_proto() for field in self.fields])
        )

    @classmethod
    def encode_values(cls, block: PackedStructBlock) -> EncodedValues[Self]:
        """Rows as values of variable width.

        Raises:
            InvalidInputError: a field's width is not a multiple of 8 bits, or a field is itself a packed struct.
        """
        children = [_encode_field(child) for child in block.children]
        fields = tuple(field for field, _ in children)
        tables = [_places(values) for _, values in children]
        starts = np.array([starts for starts, _ in tables], np.int64)
        sizes = np.array([sizes for _, sizes in tables], np.int64)
        length_bytes = np.array([field.bits_per_length // 8 for field in fields], np.int64)
        addresses = np.array([values.data.address for _, values in children], np.int64)
        offsets = np.zeros(block.num_values + 1, np.int64)
        np.cumsum(sizes.sum(axis=0) + int(length_bytes.sum()), out=offsets[1:])
        target = pa.allocate_buffer(int(offsets[-1]))
        join_fields(
            block.num_values,
            len(fields),
            address_of(addresses),
            address_of(length_bytes),
            address_of(starts),
            address_of(sizes),
            target.address,
        )
        bits = 32 if target.size < 1 << 31 else 64
        rows = VariableWidthBlock(pa.py_buffer(offsets.astype(f"<i{bits // 8}")), target, bits, block.num_values)
        return EncodedValues(cls(fields), rows)

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> PackedStructBlock:
        if not isinstance(block, VariableWidthBlock):
            raise CorruptFileError("variable_packed_struct: the page holds values of equal width")
        block = self._with_null_rows(block)
        ends = np.frombuffer(block.offsets, f"<i{block.bits_per_offset // 8}", block.num_values + 1)
        offsets = ends.astype(np.int64)
        widths = np.array([field.bits_per_value // 8 for field in self.fields], np.int64)
        length_bytes = np.array([field.bits_per_length // 8 for field in self.fields], np.int64)
        starts = np.empty((len(self.fields), block.num_values), np.int64)
        sizes = np.empty_like(starts)
        status = locate_fields(
            address_of(offsets),
            block.data.address,
            block.num_values,
            len(self.fields),
            address_of(widths),
            address_of(length_bytes),
            address_of(starts),
            address_of(sizes),
        )
        check(status, self.wire_name)
        children = tuple(
            _decode_field(field, block, starts[index], sizes[index]) for index, field in enumerate(self.fields)
        )
        return PackedStructBlock(children, block.num_values)

    def _with_null_rows(self, rows: VariableWidthBlock) -> VariableWidthBlock:
        """Null rows have no bytes in a page; this replaces them by rows of zeros and empty strings."""
        ends = np.frombuffer(rows.offsets, f"<i{rows.bits_per_offset // 8}", rows.num_values + 1).astype(np.int64)
        starts, sizes = ends[:-1].copy(), np.diff(ends)
        missing = sizes == 0
        if not missing.any():
            return rows
        zeros = sum(field.bits_per_value // 8 + field.bits_per_length // 8 for field in self.fields)
        if zeros * int(missing.sum()) > MAX_UNBACKED_BYTES:
            raise CorruptFileError(f"variable_packed_struct: {int(missing.sum())} null rows of {zeros} bytes")
        source = pa.py_buffer(b"".join([rows.data, bytes(zeros)]))
        starts[missing], sizes[missing] = rows.data.size, zeros
        offsets = np.zeros(rows.num_values + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        data = pa.allocate_buffer(int(offsets[-1]))
        concatenate(source.address, address_of(starts), address_of(sizes), rows.num_values, data.address)
        return VariableWidthBlock(pa.py_buffer(offsets), data, 64, rows.num_values)


def _decode_field(field: FieldEncoding, rows: VariableWidthBlock, starts: Int64Array, sizes: Int64Array) -> Block:
    ends = np.zeros(rows.num_values + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    data = pa.allocate_buffer(int(ends[-1]))
    concatenate(rows.data.address, address_of(starts), address_of(sizes), rows.num_values, data.address)
    if not field.bits_per_length:
        return field.value.decode_values(FixedWidthBlock(data, field.bits_per_value, rows.num_values))
    offsets = pa.py_buffer(ends.astype(f"<i{rows.bits_per_offset // 8}"))
    return field.value.decode_values(VariableWidthBlock(offsets, data, rows.bits_per_offset, rows.num_values))


def _encode_field(child: Block) -> tuple[FieldEncoding, FixedWidthBlock | VariableWidthBlock]:
    encoded: EncodedValues[PerValueEncoding]
    if isinstance(child, VariableWidthBlock):
        encoded = Variable.encode_values(child)
    elif isinstance(child, FixedSizeListBlock):
        encoded = FixedSizeList.encode_values(child)
    elif isinstance(child, FixedWidthBlock) and child.bits_per_value % 8 == 0:
        encoded = Flat.encode_values(child)
    else:
        raise InvalidInputError("a packed struct needs fields of whole bytes")
    values = encoded.block
    if isinstance(values, VariableWidthBlock):
        return FieldEncoding(encoded.encoding, 0, values.bits_per_offset), values
    return FieldEncoding(encoded.encoding, values.bits_per_value, 0), values


def _places(values: FixedWidthBlock | VariableWidthBlock) -> tuple[Int64Array, Int64Array]:
    """The start and size of each value."""
    if isinstance(values, FixedWidthBlock):
        sizes = np.full(values.num_values, values.bits_per_value // 8, np.int64)
        return starts_of(sizes), sizes
    ends = np.frombuffer(values.offsets, f"<i{values.bits_per_offset // 8}", values.num_values + 1).astype(np.int64)
    return ends[:-1], np.diff(ends)
