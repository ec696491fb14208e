"""Merges the arrays of the leaves of one field.

Each array covers the same rows and has one part of the field's tree: a path to one leaf, or a subtree from another
file. Parts common to several arrays, the validity of a struct and the offsets of a list, are equal in all of them; a
child that none of them has is null.

For ``s: struct<a, l: list<b>>`` the arrays may be ``struct<a>`` and ``struct<l: list<b>>``; for maps the parts of their
entries are lists, ``list<struct<key>>`` and ``list<struct<value>>``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.arrow_errors import DECODING_ERRORS, raise_corrupt
from lance_spark.layouts.arrow_values import null_rows
from lance_spark.schema import logical_type as lt
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.field import Field


def merge_columns(field: Field, columns: Sequence[pa.ChunkedArray], num_rows: int) -> pa.ChunkedArray:
    """The column of `field` merged from columns of `num_rows` rows that each have a part of it.

    The result has the chunk boundaries of all parts, so only offsets are copied.

    Raises:
        CorruptFileError: as `merge_paths`, or a column of another length.
    """
    data_type = to_arrow_type(field)
    if any(len(column) != num_rows for column in columns):
        raise CorruptFileError(f"the columns of field {field.name!r} differ in length")
    if len(columns) == 1 and columns[0].type.equals(data_type, check_metadata=True):
        return columns[0]
    ends = sorted({end for column in columns for end in _chunk_ends(column)})
    if not columns and num_rows:
        ends = [num_rows]
    cursors = [_Cursor(column) for column in columns]
    merged = []
    start = 0
    for end in ends:
        if end > start:
            merged.append(merge_paths(field, [cursor.advance(end) for cursor in cursors], end - start))
            start = end
    return pa.chunked_array(merged, data_type)


def merge_paths(field: Field, arrays: Sequence[pa.Array], num_rows: int) -> pa.Array:
    """The array of `field` (of its Arrow type) merged from arrays of `num_rows` rows with parts of its tree.

    Raises:
        CorruptFileError: the arrays differ in length or in list lengths, have the same leaf twice, or as `null_rows`.
    """
    data_type = to_arrow_type(field)
    if any(len(array) != num_rows for array in arrays):
        raise CorruptFileError(f"the columns of field {field.name!r} differ in length")
    if not arrays:
        return null_rows(num_rows, data_type)
    if len(arrays) == 1 and arrays[0].type.equals(data_type, check_metadata=True):
        return arrays[0]
    try:
        if is_leaf(field):
            return _leaf(field, arrays, data_type)
        if field.logical_type == "struct":
            return _struct(field, arrays, data_type)
        return _list_merger(field)(field, arrays, data_type)
    except DECODING_ERRORS as error:
        raise_corrupt(error, field=field.name)


def _chunk_ends(column: pa.ChunkedArray) -> list[int]:
    return [int(end) for end in np.cumsum([len(chunk) for chunk in column.chunks])]


class _Cursor:
    """Returns consecutive slices of a chunked array, never across a chunk boundary."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._chunk = 0
        self._chunk_start = 0
        self._position = 0

    def advance(self, end: int) -> pa.Array:
        chunk = self._chunks[self._chunk]
        piece = chunk
        if self._position != self._chunk_start or end != self._chunk_start + len(chunk):
            piece = chunk.slice(self._position - self._chunk_start, end - self._position)
        self._position = end
        if end == self._chunk_start + len(chunk):
            self._chunk += 1
            self._chunk_start = end
        return piece


def _leaf(field: Field, arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    if len(arrays) > 1:
        raise CorruptFileError(f"field {field.name!r} is stored twice")
    if pa.types.is_struct(data_type) and _names(arrays[0].type) != _names(data_type):
        # A cast would make nulls of members that it does not find.
        raise CorruptFileError(f"field {field.name!r} is stored as {arrays[0].type}, not as {data_type}")
    # Equal except for the metadata of children (packed structs).
    return arrays[0].cast(data_type)


def _names(data_type: pa.DataType) -> list[str]:
    """The names of the members of a struct; none of another type."""
    return [member.name for member in data_type] if pa.types.is_struct(data_type) else []


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _struct(field: Field, arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    if not field.children:
        return arrays[0]
    children = []
    for child in field.children:
        held = [array.field(place) for array in arrays if (place := array.type.get_field_index(child.name)) >= 0]
        children.append(merge_paths(child, held, len(arrays[0])))
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=_mask(arrays[0]))


def _list_merger(field: Field) -> Callable[[Field, Sequence[pa.Array], pa.DataType], pa.Array]:
    if field.logical_type == "map":
        return _map
    if lt.is_list(field.logical_type):
        return _list
    if lt.is_fixed_size_list(field.logical_type):
        return _fixed_size_list
    raise CorruptFileError(f"field {field.name!r} of type {field.logical_type!r} has columns below it")


def _list(field: Field, arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    offsets, items = _aligned(field, arrays)
    item = merge_paths(field.children[0], items, len(items[0]))
    kind = pa.LargeListArray if pa.types.is_large_list(data_type) else pa.ListArray
    return kind.from_arrays(pa.array(offsets), item, type=data_type, mask=_mask(arrays[0]))


def _map(field: Field, arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    offsets, items = _aligned(field, arrays)
    entries = merge_paths(field.children[0], items, len(items[0]))
    keys, values = entries.field(0), entries.field(1)
    if keys.null_count or entries.null_count:
        raise CorruptFileError(f"map {field.name!r} has null keys or entries")
    children = [pa.StructArray.from_arrays([keys, values], fields=[data_type.key_field, data_type.item_field])]
    valid = _bitmap(arrays[0])
    return pa.Array.from_buffers(data_type, len(arrays[0]), [valid, pa.py_buffer(offsets)], children=children)


def _fixed_size_list(field: Field, arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    size = data_type.list_size
    items = [array.values.slice(array.offset * size, len(array) * size) for array in arrays]
    item = merge_paths(field.children[0], items, len(items[0]))
    return pa.Array.from_buffers(data_type, len(arrays[0]), [_bitmap(arrays[0])], children=[item])


def _bitmap(array: pa.Array) -> pa.Buffer | None:
    """The validity of `array` starting at its first value."""
    if array.null_count == 0:
        return None
    return pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))


def _aligned(field: Field, arrays: Sequence[pa.Array]) -> tuple[np.ndarray[Any, Any], list[pa.Array]]:
    """(offsets from 0, the items of each array restricted to the range of the offsets)."""
    first: np.ndarray[Any, Any] | None = None
    items = []
    for array in arrays:
        bounds = np.asarray(array.offsets)
        start, stop = int(bounds[0]), int(bounds[-1])
        offsets = bounds - bounds[0]
        if first is None:
            first = offsets
        elif not np.array_equal(first, offsets):
            raise CorruptFileError(f"the columns of field {field.name!r} differ in the lengths of its lists")
        items.append(array.values.slice(start, stop - start))
    assert first is not None
    return np.ascontiguousarray(first), items
