"""JSON columns as users of Python see them: text with Arrow's extension `arrow.json`, as the reference library has it.

Tables, scans, and all that moves rows have the stored form, binary documents. The verbs that give rows to a user
change it at their end, here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.expr.json_path.documents import json_texts
from lance_spark.schema.extension import EXTENSION_METADATA, EXTENSION_NAME, is_json_field

_EXTENSION = {EXTENSION_NAME.encode(), EXTENSION_METADATA.encode()}


def shown_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with JSON columns as text, at every level of nesting; itself if it has none."""
    stored = list(schema)
    fields = [_shown_field(field) for field in stored]
    is_same = all(one is other for one, other in zip(fields, stored, strict=True))
    return schema if is_same else pa.schema(fields, metadata=schema.metadata)


def shown_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows with JSON columns as text.

    Raises:
        InvalidInputError: the bytes of a document are no binary JSON.
    """
    for batch in batches:
        # The attribute is another object each time.
        stored = batch.schema
        shown = shown_schema(stored)
        if shown is stored:
            yield batch
            continue
        columns = [_shown(*pair) for pair in zip(batch.columns, stored, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=shown)


def shown_table(table: pa.Table) -> pa.Table:
    """The rows with JSON columns as text. Raises as `shown_batches`."""
    stored = table.schema
    shown = shown_schema(stored)
    if shown is stored:
        return table
    columns = [
        column
        if one.type == field.type
        else pa.chunked_array([_shown(chunk, one) for chunk in column.chunks], field.type)
        for column, one, field in zip(table.columns, stored, shown, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=shown)


def _shown_field(field: pa.Field) -> pa.Field:
    if is_json_field(field):
        kept = {key: value for key, value in field.metadata.items() if key not in _EXTENSION}
        return pa.field(field.name, pa.json_(), field.nullable, kept or None)
    dtype = _shown_type(field.type)
    return field if dtype is field.type else field.with_type(dtype)


def _shown_type(dtype: pa.DataType) -> pa.DataType:
    """`dtype` itself if it has no JSON."""
    if not pt.is_nested(dtype) or pt.is_union(dtype):
        return dtype
    children = [dtype.field(number) for number in range(dtype.num_fields)]
    if pt.is_map(dtype):
        children = [dtype.key_field, dtype.item_field]
    shown = [_shown_field(child) for child in children]
    if all(one is other for one, other in zip(shown, children, strict=True)):
        return dtype
    if pt.is_struct(dtype):
        return pa.struct(shown)
    if pt.is_map(dtype):
        return pa.map_(*shown)
    if pt.is_fixed_size_list(dtype):
        return pa.list_(shown[0], dtype.list_size)
    return pa.large_list(shown[0]) if pt.is_large_list(dtype) else pa.list_(shown[0])


def _shown(array: pa.Array, field: pa.Field) -> pa.Array:
    if is_json_field(field):
        return pa.ExtensionArray.from_storage(pa.json_(), json_texts(array))
    dtype = _shown_type(field.type)
    if dtype is field.type:
        return array
    validity = array.is_valid().buffers()[1] if array.null_count else None
    if pt.is_struct(dtype):
        children = [_shown(child, member) for child, member in zip(array.flatten(), field.type, strict=True)]
        return pa.Array.from_buffers(dtype, len(array), [validity], children=children)
    if pt.is_fixed_size_list(dtype):
        size = dtype.list_size
        items = _shown(array.values.slice(array.offset * size, len(array) * size), field.type.value_field)
        return pa.Array.from_buffers(dtype, len(array), [validity], children=[items])
    offsets = array.offsets.to_numpy()
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(offsets - start))]
    if not pt.is_map(dtype):
        items = _shown(array.values.slice(start, length), field.type.value_field)
        return pa.Array.from_buffers(dtype, len(array), buffers, children=[items])
    entries = [
        _shown(array.keys.slice(start, length), field.type.key_field),
        _shown(array.items.slice(start, length), field.type.item_field),
    ]
    fields = [dtype.key_field, dtype.item_field]
    return pa.Array.from_buffers(
        dtype, len(array), buffers, children=[pa.StructArray.from_arrays(entries, fields=fields)]
    )
