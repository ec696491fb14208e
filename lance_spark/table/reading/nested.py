"""Prunes nested values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt


def narrowed(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """`column` with only the struct fields, at any depth, of `wanted`; buffers are shared."""
    if column.type == wanted:
        return column
    return pa.chunked_array([_narrow(chunk, wanted) for chunk in column.chunks], wanted)


def _narrow(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    if pt.is_struct(wanted):
        children = [_narrow(array.field(field.name), field.type) for field in wanted]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pt.is_map(wanted):
        entries = pa.struct([wanted.key_field, wanted.item_field])
        keys, items = _narrow(array.keys, wanted.key_type), _narrow(array.items, wanted.item_type)
        below = pa.StructArray.from_arrays([keys, items], fields=list(entries))
    else:
        below = _narrow(array.values, wanted.value_type)
    own = array.buffers()[:1] if pt.is_fixed_size_list(wanted) else array.buffers()[:2]
    return pa.Array.from_buffers(wanted, len(array), own, offset=array.offset, children=[below])
