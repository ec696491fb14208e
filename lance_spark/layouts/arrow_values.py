"""Conversion of blocks of decoded values to Arrow arrays.

Arrow's invariants are checked once: sizes and the type's width here, the values in `checked_values`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import (
    MAX_UNBACKED_BYTES,
    Block,
    FixedSizeListBlock,
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.checked_values import PLAIN, checked

_MAX_NULL_BYTES = 64 << 20
"""Of a null. The type of a damaged schema can claim any number."""


def block_to_array(block: Block, data_type: pa.DataType, validity: pa.Buffer | None = None) -> pa.Array:
    """An array of `data_type` with the values of `block`; a view where Arrow's layout is the same.

    Args:
        block: the values, one for every slot of the array, including nulls.
        data_type: any type except dictionaries.
        validity: bitmap of the array, None if all are valid.

    Raises:
        CorruptFileError: the block does not hold values of this type.
    """
    return _BUILDERS[type(block)](block, data_type, validity)


def _fixed_width(block: FixedWidthBlock, data_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    try:
        bits = data_type.bit_width
    except ValueError:
        raise CorruptFileError(f"a page holds values of {block.bits_per_value} bits for type {data_type}") from None
    is_plain = data_type.id in PLAIN
    if bits != block.bits_per_value or (not is_plain and pa.types.is_nested(data_type)):
        raise CorruptFileError(f"a page holds values of {block.bits_per_value} bits for type {data_type}")
    _check_size(block.data, (block.num_values * bits + 7) // 8)
    array = pa.Array.from_buffers(data_type, block.num_values, [validity, block.data])
    return array if is_plain else checked(array)


def _variable_width(block: VariableWidthBlock, data_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    bits = _OFFSET_BITS.get(data_type.id)
    if bits is None:
        raise CorruptFileError(f"a page holds byte strings for type {data_type}")
    _check_size(block.offsets, (block.num_values + 1) * block.bits_per_offset // 8)
    offsets = _offsets(block, bits)
    array = pa.Array.from_buffers(data_type, block.num_values, [validity, offsets, block.data])
    return array if block.is_ascii else checked(array)


def _offsets(block: VariableWidthBlock, bits: int) -> pa.Buffer:
    if bits == block.bits_per_offset:
        return block.offsets
    offsets = np.frombuffer(block.offsets, np.int64 if block.bits_per_offset == 64 else np.int32, block.num_values + 1)
    if bits == 32 and int(offsets[-1]) > 2**31 - 1:
        raise CorruptFileError(f"{int(offsets[-1])} bytes of values in a page of a type with 32-bit offsets")
    return pa.py_buffer(offsets.astype(np.int64 if bits == 64 else np.int32))


def _fixed_size_list(block: FixedSizeListBlock, data_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != block.dimension:
        raise CorruptFileError(f"a page holds lists of {block.dimension} items for type {data_type}")
    num_items = block.num_values * block.dimension
    if block.validity is not None:
        _check_size(block.validity, (num_items + 7) // 8)
    items = block_to_array(block.items, data_type.value_type, block.validity)
    if len(items) != num_items:
        raise CorruptFileError(f"a page holds {len(items)} items for lists of {num_items}")
    return pa.Array.from_buffers(data_type, block.num_values, [validity], children=[items])


def _packed_struct(block: PackedStructBlock, data_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    if not pa.types.is_struct(data_type) or data_type.num_fields != len(block.children):
        raise CorruptFileError(f"a page holds a packed struct of {len(block.children)} children for type {data_type}")
    children = [
        block_to_array(child, data_type.field(number).type) for number, child in enumerate(block.children)
    ]  # fmt: skip
    if any(len(child) != block.num_values for child in children):
        raise CorruptFileError("the children of a packed struct differ in length")
    return pa.Array.from_buffers(data_type, block.num_values, [validity], children=children)


_BUILDERS: dict[type[Any], Callable[[Any, pa.DataType, pa.Buffer | None], pa.Array]] = {
    FixedWidthBlock: _fixed_width,
    VariableWidthBlock: _variable_width,
    FixedSizeListBlock: _fixed_size_list,
    PackedStructBlock: _packed_struct,
}

_OFFSET_BITS = {pa.string().id: 32, pa.binary().id: 32, pa.large_string().id: 64, pa.large_binary().id: 64}


def _check_size(buffer: pa.Buffer, num_bytes: int) -> None:
    if buffer.size < num_bytes:
        raise CorruptFileError(f"a page holds {buffer.size} bytes of values where {num_bytes} are needed")


def all_null(num_values: int, arrow_type: pa.DataType) -> pa.Array:
    """`num_values` nulls of a type, of which the file has no bytes.

    Raises:
        CorruptFileError: they take more than `MAX_UNBACKED_BYTES`.
    """
    if num_values * _bytes_per_null(arrow_type) > MAX_UNBACKED_BYTES:
        raise CorruptFileError(f"{num_values} nulls of type {arrow_type}, which have no bytes in the file")
    return pa.nulls(num_values, arrow_type)


def null_rows(num_rows: int, arrow_type: pa.DataType) -> pa.Array:
    """`num_rows` nulls for rows that the file does have: unlike in `all_null`, they may be many.

    Raises:
        CorruptFileError: one of them takes more than 64 MiB.
    """
    if num_rows and _bytes_per_null(arrow_type) > _MAX_NULL_BYTES:
        raise CorruptFileError(f"nulls of type {arrow_type} are larger than any values")
    return pa.nulls(num_rows, arrow_type)


def _bytes_per_null(arrow_type: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(arrow_type):
        return 1 + int(arrow_type.list_size) * _bytes_per_null(arrow_type.value_type)
    if pa.types.is_struct(arrow_type):
        return 1 + sum(_bytes_per_null(member.type) for member in arrow_type)
    if pa.types.is_fixed_size_binary(arrow_type):
        return 1 + int(arrow_type.byte_width)  # The number of its bits can be beyond an int32.
    try:
        return 1 + int(arrow_type.bit_width) // 8
    except ValueError:
        return 9
