"""Columns as users of Python see them: with the extension types that Arrow knows, JSON columns as text (`arrow.json`).

Tables, scans, and all that moves rows have the stored form: storage types, binary documents. The verbs that give rows
to a user change it at their end, here. The reference library gives the same types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.schema.extension import EXTENSION_KEYS, EXTENSION_NAME, is_json_field

_NAME = EXTENSION_NAME.encode()


def shown_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with extension types, at every level of nesting; itself if it has none.

    A type that is not registered, or whose parameters Arrow refuses, stays its storage type and the metadata.
    """
    stored = list(schema)
    fields = [_shown_field(field) for field in stored]
    is_same = all(one is other for one, other in zip(fields, stored, strict=True))
    return schema if is_same else pa.schema(fields, metadata=schema.metadata)


def shown_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows with extension types.

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
        columns = [_shown(*of_one) for of_one in zip(batch.columns, stored, shown, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=shown)


def shown_table(table: pa.Table) -> pa.Table:
    """The rows with extension types. Raises as `shown_batches`."""
    stored = table.schema
    shown = shown_schema(stored)
    if shown is stored:
        return table
    columns = [
        column
        if one.type == field.type
        else pa.chunked_array([_shown(chunk, one, field) for chunk in column.chunks], field.type)
        for column, one, field in zip(table.columns, stored, shown, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=shown)


def _shown_field(field: pa.Field) -> pa.Field:
    if is_json_field(field):
        kept = {key: value for key, value in field.metadata.items() if key not in EXTENSION_KEYS}
        return pa.field(field.name, pa.json_(), field.nullable, kept or None)
    dtype = _shown_type(field.type)
    shown = field if dtype is field.type else field.with_type(dtype)
    return _with_extension(shown) if field.metadata and _NAME in field.metadata else shown


def _with_extension(field: pa.Field) -> pa.Field:
    """The field with the registered type that its metadata names, or as it is."""
    try:
        restored = pa.ipc.read_schema(pa.schema([field]).serialize()).field(0)
    except pa.ArrowInvalid:
        # Values can be read whatever other programs have written about them.
        return field
    return restored if isinstance(restored.type, pa.BaseExtensionType) else field


def _shown_type(dtype: pa.DataType) -> pa.DataType:
    """`dtype` itself if it has no extension types."""
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


def _shown(array: pa.Array, field: pa.Field, shown: pa.Field) -> pa.Array:
    from lance_spark.expr.json_path.documents import json_texts

    if is_json_field(field):
        return pa.ExtensionArray.from_storage(pa.json_(), json_texts(array))
    if field.type == shown.type:
        return array
    if isinstance(shown.type, pa.BaseExtensionType):
        # Some types make the items of lists nullable.
        return pa.ExtensionArray.from_storage(shown.type, array.cast(shown.type.storage_type))
    dtype = shown.type
    validity = array.is_valid().buffers()[1] if array.null_count else None
    if pt.is_struct(dtype):
        children = [_shown(*of_one) for of_one in zip(array.flatten(), field.type, dtype, strict=True)]
        return pa.Array.from_buffers(dtype, len(array), [validity], children=children)
    if pt.is_fixed_size_list(dtype):
        size = dtype.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        shown_items = _shown(items, field.type.value_field, dtype.value_field)
        return pa.Array.from_buffers(dtype, len(array), [validity], children=[shown_items])
    offsets = array.offsets.to_numpy()
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(offsets - start))]
    if not pt.is_map(dtype):
        items = _shown(array.values.slice(start, length), field.type.value_field, dtype.value_field)
        return pa.Array.from_buffers(dtype, len(array), buffers, children=[items])
    entries = [
        _shown(array.keys.slice(start, length), field.type.key_field, dtype.key_field),
        _shown(array.items.slice(start, length), field.type.item_field, dtype.item_field),
    ]
    fields = [dtype.key_field, dtype.item_field]
    return pa.Array.from_buffers(
        dtype, len(array), buffers, children=[pa.StructArray.from_arrays(entries, fields=fields)]
    )
