"""The visible values of a leaf as a block: without Arrow offset and validity, null slots cleared.

Nulls have a slot in most layouts, so they need a filler: zeros, or an empty string. Zeros are cheapest in every
encoding, and the arbitrary values in null slots are not leaked.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import (
    Block,
    FixedSizeListBlock,
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from lance_spark.errors import InvalidInputError
from lance_spark.kernels import arrow_values as kernels

EMPTY = pa.py_buffer(b"")


def leaf_block(values: pa.Array) -> Block:
    """The values of a non-dictionary leaf array; views of its buffers where nothing needs clearing.

    Raises:
        InvalidInputError: the offsets of the array decrease or are out of bounds.
    """
    dtype = values.type
    if pa.types.is_fixed_size_list(dtype):
        return _fixed_size_list(values)
    if pa.types.is_struct(dtype):
        return _packed_struct(values)
    if pa.types.is_boolean(dtype):
        return FixedWidthBlock(_bits(values), 1, len(values))
    if is_variable(dtype):
        return _variable(values)
    return FixedWidthBlock(_fixed(values, dtype.bit_width // 8), dtype.bit_width, len(values))


_VARIABLE = {dtype.id for dtype in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())}


def is_variable(dtype: pa.DataType) -> bool:
    """True for strings and binaries of variable length."""
    return dtype.id in _VARIABLE


def validity_bits(array: pa.Array) -> pa.Buffer | None:
    """The validity of `array` starting at its first value, or None without nulls."""
    if array.null_count == 0:
        return None
    return _shifted(array.buffers()[0], array.offset, len(array))


def _shifted(bitmap: pa.Buffer, bit_offset: int, num_bits: int) -> pa.Buffer:
    target = pa.allocate_buffer((num_bits + 7) // 8)
    kernels.copy_bits(bitmap.address, bit_offset, num_bits, target.address)
    return target


def _bits(values: pa.Array) -> pa.Buffer:
    data = values.buffers()[1]
    if len(values) == 0 or data is None:
        return EMPTY
    bits = _shifted(data, values.offset, len(values))
    valid = validity_bits(values)
    if valid is not None:
        kernels.and_bits(valid.address, valid.size, bits.address)
    return bits


def _fixed(values: pa.Array, value_bytes: int) -> pa.Buffer:
    size = len(values) * value_bytes
    data = values.buffers()[1]
    if size == 0 or data is None:
        return EMPTY
    data = data.slice(values.offset * value_bytes, size)
    if values.null_count == 0:
        return data
    return _cleared(data, values, value_bytes)


def _cleared(data: pa.Buffer, array: pa.Array, value_bytes: int) -> pa.Buffer:
    target = pa.allocate_buffer(len(array) * value_bytes)
    validity = _shifted(array.buffers()[0], array.offset, len(array))
    kernels.copy_valid(data.address, validity.address, len(array), value_bytes, 8, target.address)
    return target


def _variable(values: pa.Array) -> VariableWidthBlock:
    import pyarrow.compute as pc

    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    offset_bytes = 8 if wide else 4
    _, offsets, data = values.buffers()
    if len(values) == 0:
        return VariableWidthBlock(pa.py_buffer(bytes(offset_bytes)), EMPTY, 8 * offset_bytes, 0)
    data = EMPTY if data is None else data
    validity = values.buffers()[0].address if values.null_count else 0
    target = pa.allocate_buffer((len(values) + 1) * offset_bytes)
    start = offsets.address + values.offset * offset_bytes
    hidden = kernels.rebase_offsets(start, wide, len(values), data.size, validity, values.offset, target.address)
    if hidden < 0:
        raise InvalidInputError("the offsets of a string or binary array fall or leave its data; validate the array")
    if hidden > 0:
        return _variable(pc.fill_null(values, pa.scalar(b"" if "binary" in str(values.type) else "", values.type)))
    kind = np.int64 if wide else np.int32
    first = int(np.frombuffer(offsets, kind, 1, values.offset * offset_bytes)[0])
    length = int(np.frombuffer(target, kind, 1, len(values) * offset_bytes)[0])
    return VariableWidthBlock(target, data.slice(first, length), 8 * offset_bytes, len(values))


def _fixed_size_list(values: pa.FixedSizeListArray) -> FixedSizeListBlock:
    dimension = values.type.list_size
    items = values.values.slice(values.offset * dimension, len(values) * dimension)
    block = leaf_block(items)
    validity = validity_bits(items)
    if values.null_count:
        block = _clear_rows(block, values, dimension)
    return FixedSizeListBlock(block, dimension, validity, len(values))


def _packed_struct(values: pa.StructArray) -> PackedStructBlock:
    """The block of a packed struct, which is a leaf."""
    import pyarrow.compute as pc

    children = tuple(leaf_block(pc.struct_field(values, [number])) for number in range(values.type.num_fields))
    return PackedStructBlock(children, len(values))


def require_whole_structs(values: pa.StructArray, name: str) -> None:
    """Checks that no field of a packed struct is null where the struct is not.

    Raises:
        InvalidInputError: one is; the format cannot represent that.
    """
    import pyarrow.compute as pc

    for number, field in enumerate(values.type):
        if pc.struct_field(values, [number]).null_count != values.null_count:
            raise InvalidInputError(
                f"column {name!r} is a packed struct and its field {field.name!r} is null; only all of it can be null"
            )


def _clear_rows(items: Block, rows: pa.Array, dimension: int) -> Block:
    """Clears the items under null `rows`; the items of each row are `dimension` values of `items`."""
    if isinstance(items, FixedSizeListBlock):
        inner = _clear_rows(items.items, rows, dimension * items.dimension)
        return FixedSizeListBlock(inner, items.dimension, items.validity, items.num_values)
    if not isinstance(items, FixedWidthBlock):
        raise TypeError(f"a fixed-size list of {type(items).__name__}")
    if items.bits_per_value % 8 == 0:
        return FixedWidthBlock(
            _cleared(items.data, rows, dimension * items.bits_per_value // 8), items.bits_per_value, items.num_values
        )
    valid = np.repeat(np.asarray(rows.is_valid()), dimension)
    bits = np.unpackbits(np.frombuffer(items.data, np.uint8), count=len(valid), bitorder="little") & valid
    return FixedWidthBlock(pa.py_buffer(np.packbits(bits, bitorder="little")), 1, items.num_values)
