"""Values of constant pages: one value, or null, in every slot."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Block, FixedWidthBlock, VariableWidthBlock
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.layouts.arrow_values import block_to_array, null_rows
from lance_spark.layouts.leaf.arrays import Leaf

_WIDE = {pa.large_string(): 64, pa.large_binary(): 64}
_NARROW = {pa.string(): 32, pa.binary(): 32}
_MAX_NARROW_BYTES = 2**31 - 1
_NUMBERS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def inline_scalar(value: bytes, data_type: pa.DataType) -> pa.Array:
    """One value of fixed width from its bytes; a boolean is one byte.

    Raises:
        CorruptFileError: the bytes are not a valid value of this type.
    """
    if pa.types.is_boolean(data_type):
        if value not in (b"\x00", b"\x01"):
            raise CorruptFileError(f"constant: {value!r} is no boolean")
        return pa.array([value == b"\x01"])
    return block_to_array(FixedWidthBlock(pa.py_buffer(value), 8 * len(value), 1), data_type)


def buffer_scalar(buffer: pa.Buffer, data_type: pa.DataType) -> pa.Array:
    """One value from the parts of its Arrow array: offsets and bytes, or only bytes.

    Raises:
        CorruptFileError: the parts are out of bounds, or not a valid value of this type.
    """
    data = memoryview(buffer)
    num_parts = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    position = 4 + 4 * num_parts
    if num_parts not in (1, 2) or position > len(data):
        raise CorruptFileError(f"constant: a value of {num_parts} parts in {len(data)} bytes")
    parts = []
    for size in struct.unpack_from(f"<{num_parts}I", data, 4):
        if position + size > len(data):
            raise CorruptFileError("constant: the parts of the value leave its buffer")
        parts.append(buffer.slice(position, size))
        position += size
    return block_to_array(_block(parts, data_type), data_type)


def _block(parts: list[pa.Buffer], data_type: pa.DataType) -> Block:
    bits = (_NARROW | _WIDE).get(data_type)
    if bits is None:
        return FixedWidthBlock(parts[-1], 8 * parts[-1].size, 1)
    if len(parts) != 2 or parts[0].size != bits // 4:
        raise CorruptFileError(f"constant: {parts[0].size} bytes of offsets for one value of type {data_type}")
    first, last = struct.unpack("<2q" if bits == 64 else "<2i", parts[0])
    if first != 0 or last != parts[1].size:
        raise CorruptFileError("constant: the offsets of the value do not match its bytes")
    return VariableWidthBlock(parts[0], parts[1], bits, 1)


def repeated_leaf(value: pa.Array) -> Leaf:
    """`value` (an array of length 1) in every valid slot."""

    def build(validity: pa.Buffer | None, num_values: int) -> pa.Array:
        if value.type in _NARROW and value.buffers()[2].size * num_values > _MAX_NARROW_BYTES:
            raise InvalidInputError("more than 2 GiB of values at once; read fewer rows at a time")
        buffers = _repeated(value, num_values)
        return pa.Array.from_buffers(value.type, num_values, [validity, *buffers])

    return build


def _repeated(value: pa.Array, num_values: int) -> list[pa.Buffer]:
    if num_values == 1 and value.offset == 0:
        # A view: large values, such as the dictionaries of text indexes, stay in mapped files.
        own: list[pa.Buffer] = value.buffers()[1:]
        return own
    number = _NUMBERS.get(value.type.bit_width) if _is_plain(value.type) else None
    if number is None:
        buffers: list[pa.Buffer] = pa.repeat(value[0], num_values).buffers()[1:]
        return buffers
    # Arrow appends the values one by one, which takes ten times as long.
    item = np.frombuffer(value.buffers()[1], number, 1, value.offset * value.type.bit_width // 8)
    return [pa.py_buffer(np.full(num_values, item[0]))]


def _is_plain(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(data_type) and not pa.types.is_boolean(data_type))


def is_empty_struct(data_type: pa.DataType) -> bool:
    """True for structs without fields: the only non-null values without bytes."""
    return bool(pa.types.is_struct(data_type) and data_type.num_fields == 0)


def null_leaf(data_type: pa.DataType) -> Leaf:
    """A leaf with only nulls.

    Raises:
        CorruptFileError: (when called) a slot is valid.
    """

    def build(validity: pa.Buffer | None, num_values: int) -> pa.Array:
        if is_empty_struct(data_type):
            return pa.Array.from_buffers(data_type, num_values, [validity])
        if validity is not None and not pa.types.is_null(data_type):
            num_valid = pc.sum(pa.Array.from_buffers(pa.bool_(), num_values, [None, validity])).as_py()
            if num_valid:
                raise CorruptFileError(f"constant: {num_valid} slots are valid, but the page has no value")
        return null_rows(num_values, data_type)

    return build
