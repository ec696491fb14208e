"""Converts rows of an append to the columns of the table: by name, in the table's types (Lance table format, "Append").

Column order is free, and nullable columns may be missing. Types must be equal except where they hold the same values:
string and large string, binary and large binary, list and large list, their views, lists of one size in columns of
lists, dictionaries and plain values, and columns of type null; JSON columns take text. All other conversions are
rejected, because a lossy cast must be the user's own decision.

Views, runs and dictionaries are layouts of values. pyarrow's casts of list views (seen in 26.0) give other rows than
the views have, and it decodes neither runs nor dictionaries of views. Rows in types that Lance does not have get others
with the same values first (`stored_field`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import json_documents
from lance_spark.layouts.arrow_take import take
from lance_spark.schema.arrow import is_dictionary_value, is_fixed_size_list_type, to_arrow_field
from lance_spark.schema.blob import BLOB_KEY, DESCRIPTION, INGEST, PLACE, SOURCE
from lance_spark.schema.columns import BLOB_V2_EXTENSION
from lance_spark.schema.extension import EXTENSION_NAME, is_json_field, is_json_text, storage
from lance_spark.schema.field import Field, LanceSchema

_TEXT = (pt.is_string, pt.is_large_string, pt.is_string_view)
_BYTES = (pt.is_binary, pt.is_large_binary, pt.is_binary_view)
_EXTENSION = EXTENSION_NAME.encode()
_SOURCED = tuple(field.name for field in (*DESCRIPTION, SOURCE))
_PLACED = frozenset(field.name for field in PLACE)
_LISTS = (pt.is_list, pt.is_large_list)
_UNNAMED_INDEX = re.compile(r"__index_level_[0-9]+__")  # The columns that pyarrow makes of a DataFrame's index.


class Conformer:
    """Converts batches of one schema to the columns of a table.

    Args:
        table: the table's schema.
        source: the schema of the batches.
        computed: columns that may be missing because they are computed later.

    Attributes:
        targets: the columns of converted batches, in Arrow's types and in the table's order.

    Raises:
        InvalidInputError: an unknown column, a column of another type, or a missing column that is not nullable.
    """

    def __init__(self, table: LanceSchema, source: pa.Schema, computed: Collection[str] = ()) -> None:
        _check_names(table.names(), source.names, "")
        present = set(source.names)
        for field in table.fields:
            if field.name not in present and not field.nullable and field.name not in computed:
                raise InvalidInputError(f"column {field.name!r} is missing, and the table does not let it be null")
        self.targets = [to_arrow_field(field) for field in table.fields if field.name in present]
        targets = {target.name: target for target in self.targets}
        for column in source:
            _check_type(column.type, targets[column.name], column.name)
        self._given = source
        self._fits = not any(map(has_blob_type, self.targets)) and source.equals(
            pa.schema(self.targets, metadata=source.metadata), check_metadata=True
        )
        """Whether batches are as they are written."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the table's types, columns in the table's order.

        Raises:
            InvalidInputError: the schema of the batch differs from the first one's, or a value does not fit its type.
        """
        has_first_schema = bool(batch.schema.equals(self._given))
        if not has_first_schema and not self._differs_in_blobs(batch.schema):
            raise InvalidInputError("the batches to write differ in their schemas")
        if not self.targets:
            return batch.select([])
        return batch if self._fits and has_first_schema else self._converted(batch)

    def _converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            arrays = [_in_field(batch.column(target.name), target) for target in self.targets]
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"the batch does not fit into the table's types: {error}") from error
        # Blobs of other files of the table keep the form of descriptions.
        targets = [target.with_type(array.type) for target, array in zip(self.targets, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(targets))

    def _differs_in_blobs(self, source: pa.Schema) -> bool:
        """Whether all but the form of blobs is as in the first batch."""
        if source.names != self._given.names:
            return False
        targets = {target.name: target for target in self.targets}
        for field, first in zip(source, self._given, strict=True):
            if field.type != first.type:
                if not has_blob_type(targets[field.name]):
                    return False
                _check_type(field.type, targets[field.name], field.name)
        return True


def same_columns(left: LanceSchema, right: LanceSchema) -> bool:
    """True if data files of one schema are valid for the other: ids, names, types and nullability are equal."""

    def meaning(field: Field) -> tuple[object, ...]:
        return (
            field.id,
            field.name,
            field.logical_type,
            field.nullable,
            tuple(meaning(child) for child in field.children),
        )

    return [meaning(field) for field in left.fields] == [meaning(field) for field in right.fields]


def _check_names(available: tuple[str, ...] | list[str], source: list[str], where: str) -> None:
    if len(set(source)) != len(source):
        raise InvalidInputError(f"the data has two columns of one name{where}")
    unknown = sorted(set(source) - set(available))
    if unknown:
        index = [name for name in unknown if _UNNAMED_INDEX.fullmatch(name)]
        hint = f". {index[0]!r} is the index of the DataFrame: reset_index(drop=True) leaves it out" if index else ""
        names, others = ", ".join(map(repr, unknown)), ", ".join(map(repr, available))
        raise InvalidInputError(f"the table has no column {names}{where}; it has {others}{hint}")


def _check_type(source: pa.DataType, target: pa.Field, path: str) -> None:
    source = _storage(source)
    to_type = target.type
    if is_blob_type(target):
        _check_blob(source, path)
        return
    source = _storage(source.value_type) if pt.is_dictionary(source) else source
    to_type = to_type.value_type if pt.is_dictionary(to_type) else to_type
    if is_json_field(target) and any(kind(source) for kind in _TEXT):
        return
    if (
        source == to_type
        or pt.is_null(source)
        or _same_kind(source, to_type, _TEXT)
        or _same_kind(source, to_type, _BYTES)
    ):
        return
    if pt.is_struct(source) and pt.is_struct(to_type):
        names = [source.field(number).name for number in range(source.num_fields)]
        _check_names([field.name for field in to_type], names, f" inside of {path!r}")
        for field in to_type:
            number = source.get_field_index(field.name)
            if number >= 0:
                _check_type(source.field(number).type, field, f"{path}.{field.name}")
            elif not field.nullable:
                raise InvalidInputError(f"column {path}.{field.name} is missing, and the table does not let it be null")
        return
    has_size = pt.is_fixed_size_list(source)
    if (
        _same_kind(source, to_type, _LISTS)
        or (has_size and any(kind(to_type) for kind in _LISTS))
        or (has_size and pt.is_fixed_size_list(to_type) and source.list_size == to_type.list_size)
    ):
        _check_type(source.value_type, to_type.value_field, f"{path}.{to_type.value_field.name}")
        return
    if pt.is_map(source) and pt.is_map(to_type):
        _check_type(source.key_type, to_type.key_field, f"{path}.key")
        _check_type(source.item_type, to_type.item_field, f"{path}.value")
        return
    raise InvalidInputError(f"column {path!r} has type {source}, the table has {to_type}; cast it first")


def is_blob_type(field: pa.Field) -> bool:
    """True for a blob column in the form in which the table's schema declares it: a struct, or of old files binary."""
    metadata = field.metadata or {}
    if pt.is_struct(field.type):
        return metadata.get(_EXTENSION) == BLOB_V2_EXTENSION.encode()
    return BLOB_KEY.encode() in metadata and pt.is_large_binary(field.type)


def has_blob_type(field: pa.Field) -> bool:
    """True for a blob column, and for a struct that has one."""
    return is_blob_type(field) or (pt.is_struct(field.type) and any(map(has_blob_type, field.type)))


def _check_blob(source: pa.DataType, path: str) -> None:
    if pt.is_null(source) or any(kind(source) for kind in _BYTES):
        return
    members = {source.field(number).name for number in range(source.num_fields)} if pt.is_struct(source) else set()
    if members == set(_SOURCED) or ("data" in members and members <= {"data", "uri", "position", "size", INGEST}):
        return
    if "kind" in members or members == _PLACED:
        raise InvalidInputError(
            f"column {path!r} has descriptions of blobs, which mean nothing in another table; write the bytes "
            "(read them with blob_handling='all_binary')"
        )
    raise InvalidInputError(f"column {path!r} has blobs: binary values, or structs of data and uri, not {source}")


def _convert_blob(array: pa.Array, to_type: pa.DataType) -> pa.Array:
    """Bytes, or a struct with some of the members, as the struct or the values that the schema declares."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_struct(array.type):
        if max(array.type.get_field_index(name) for name in (SOURCE.name, INGEST)) >= 0 or not pt.is_struct(to_type):
            return array
        available = {field.name for field in to_type}
        used = [field.name for field in array.type if array.field(field.name).null_count < len(array)]
        lost = [name for name in used if name not in available]
        if lost:
            raise InvalidInputError(f"the blob column was declared without {lost[0]!r}, which some of the rows have")
        return _convert_struct(array, to_type)
    if pt.is_null(array.type):
        return pa.nulls(len(array), to_type)
    if not pt.is_struct(to_type):
        return array.cast(to_type)
    children = [
        array.cast(field.type) if field.name == "data" else pa.nulls(len(array), field.type) for field in to_type
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(to_type), mask=mask)


def _same_kind(source: pa.DataType, to_type: pa.DataType, kinds: tuple[Callable[[pa.DataType], bool], ...]) -> bool:
    return any(kind(source) for kind in kinds) and any(kind(to_type) for kind in kinds)


def _storage(dtype: pa.DataType) -> pa.DataType:
    while isinstance(dtype, pa.BaseExtensionType):
        dtype = dtype.storage_type
    return dtype


def _in_field(array: pa.Array, field: pa.Field) -> pa.Array:
    return _convert_blob(array, field.type) if is_blob_type(field) else converted(array, field.type)


def converted(array: pa.Array, to_type: pa.DataType) -> pa.Array:
    """`array` as `to_type`, a compatible type: struct members are matched by name, missing ones are null."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == to_type:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), to_type)
    if pt.is_run_end_encoded(array.type):
        plain = stored_type(array.type.value_type)
        return converted(run_values(array, converted(array.values, plain)), to_type)
    if pt.is_dictionary(to_type):
        return _convert_to_dictionary(array, to_type)
    if pt.is_dictionary(array.type):
        plain = stored_type(_storage(array.type.value_type))
        return converted(dictionary_values(array, converted(array.dictionary, plain)), to_type)
    if pt.is_struct(to_type):
        return _convert_struct(array, to_type)
    if pt.is_list(to_type) or pt.is_large_list(to_type):
        return _convert_list(array, to_type)
    if pt.is_fixed_size_list(to_type):
        items = converted(array.values, to_type.value_type)
        return pa.Array.from_buffers(to_type, len(array), array.buffers()[:1], offset=array.offset, children=[items])
    if pt.is_map(to_type):
        entries = pa.struct([to_type.key_field, to_type.item_field])
        keys, items = converted(array.keys, to_type.key_type), converted(array.items, to_type.item_type)
        children = [pa.StructArray.from_arrays([keys, items], fields=list(entries))]
        return pa.Array.from_buffers(to_type, len(array), array.buffers()[:2], offset=array.offset, children=children)
    if _same_kind(array.type, array.type, _TEXT) and _same_kind(to_type, to_type, _BYTES):
        # `_check_type` lets text into JSON columns, and into no others that are binary.
        return json_documents(array, to_type)
    return array.cast(to_type)


def _convert_struct(array: pa.StructArray, to_type: pa.StructType) -> pa.Array:
    children = []
    for field in to_type:
        number = array.type.get_field_index(field.name)
        child = pa.nulls(len(array), field.type) if number < 0 else _in_field(array.field(number), field)
        children.append(child)
    mask = array.is_null() if array.null_count else None
    fields = [field.with_type(child.type) for field, child in zip(to_type, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _convert_to_dictionary(array: pa.Array, to_type: pa.DictionaryType) -> pa.Array:
    if pt.is_dictionary(array.type):
        values = converted(array.dictionary, to_type.value_type)
        array = pa.DictionaryArray.from_arrays(array.indices, values)
    else:
        array = converted(array, to_type.value_type)
    return encoded(array, to_type)


def _convert_list(array: pa.Array, to_type: pa.DataType) -> pa.Array:
    if not _same_kind(array.type, to_type, _LISTS):
        sizes, places = fixed_size_items(array) if pt.is_fixed_size_list(array.type) else view_items(array)
        return lists_of(array, sizes, take(converted(array.values, to_type.value_type), places), to_type)
    if pt.is_list(array.type) != pt.is_list(to_type):
        flavour = pa.list_ if pt.is_list(to_type) else pa.large_list
        array = array.cast(flavour(array.type.value_field))
    items = converted(array.values, to_type.value_type)
    return pa.Array.from_buffers(to_type, len(array), array.buffers()[:2], offset=array.offset, children=[items])


_MAX_INT32 = (1 << 31) - 1


def run_values(array: pa.RunEndEncodedArray, values: pa.Array) -> pa.Array:
    """The rows of an array of runs, whose values are `values`."""
    ends = np.asarray(array.run_ends).astype(np.int64)
    lengths = np.diff(np.clip(ends - array.offset, 0, len(array)), prepend=0)
    return take(values, np.repeat(np.arange(len(ends)), lengths))


def dictionary_values(array: pa.DictionaryArray, values: pa.Array) -> pa.Array:
    """The rows of a dictionary array, whose dictionary is `values`."""
    places = array.indices.cast(pa.int64()).fill_null(len(values)).to_numpy()
    return take(pa.concat_arrays([values, pa.nulls(1, values.type)]), places)


def encoded(array: pa.Array, dtype: pa.DictionaryType) -> pa.DictionaryArray:
    """`array`, plain values of `dtype` or a dictionary array with such a dictionary, as `dtype`.

    Raises:
        pa.ArrowInvalid: there are more different values than the indices of `dtype` can number.
    """
    if not pt.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices.cast(dtype.index_type)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=dtype.ordered)


def view_items(array: pa.Array) -> tuple[Int64Array, Int64Array]:
    """(number of items of each list, places of all items in order) of an array of list views; nulls have no items."""
    sizes = np.where(_valid(array), np.asarray(array.sizes), 0).astype(np.int64)
    ends = np.cumsum(sizes)
    starts = np.asarray(array.offsets)[: len(array)].astype(np.int64)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return sizes, places


def fixed_size_items(array: pa.FixedSizeListArray) -> tuple[Int64Array, Int64Array]:
    """Same as `view_items`, for an array of lists of one size."""
    size = array.type.list_size
    valid = _valid(array)
    places = np.arange(len(array) * size).reshape(len(array), size)[valid] + array.offset * size
    return valid * np.int64(size), places.reshape(-1)


def lists_of(array: pa.Array, sizes: Int64Array, items: pa.Array, dtype: pa.DataType) -> pa.Array:
    """The lists of `array` in the type `dtype`, list or large list.

    Args:
        sizes: number of items of each.
        items: of all of them, in the type of items of `dtype`.
    """
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if not pt.is_large_list(dtype) and ends[-1] > _MAX_INT32:
        raise InvalidInputError(f"{ends[-1]} items of lists are in one batch; write smaller batches")
    offsets = pa.array(ends.astype(np.int64 if pt.is_large_list(dtype) else np.int32))
    flavour = pa.LargeListArray if pt.is_large_list(dtype) else pa.ListArray
    return flavour.from_arrays(offsets, items, type=dtype, mask=array.is_null() if array.null_count else None)


def _valid(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(array.is_valid())


def stored_field(field: pa.Field) -> pa.Field:
    """`field` in types that Lance has at every level, and JSON text as binary documents; itself if it has them."""
    dtype = field.type
    is_extension = isinstance(dtype, pa.BaseExtensionType)
    stored = stored_type(dtype.storage_type if is_extension else dtype)
    if is_json_text(field):
        stored, metadata = storage(field)
    elif not is_extension:
        return field if stored == dtype else field.with_type(stored)
    elif stored == dtype.storage_type:
        return field
    else:
        _, metadata = storage(field)
    return pa.field(field.name, stored, field.nullable, metadata=metadata)


def stored_type(dtype: pa.DataType) -> pa.DataType:
    """The type that has the values of `dtype`, which is no extension type."""
    if pt.is_string_view(dtype):
        return pa.string()
    if pt.is_binary_view(dtype):
        return pa.binary()
    if pt.is_decimal32(dtype) or pt.is_decimal64(dtype):
        return pa.decimal128(dtype.precision, dtype.scale)
    if pt.is_run_end_encoded(dtype) and not isinstance(dtype.value_type, pa.BaseExtensionType):
        return stored_type(dtype.value_type)
    if pt.is_dictionary(dtype) and not isinstance(dtype.value_type, pa.BaseExtensionType):
        values = stored_type(dtype.value_type)
        return pa.dictionary(dtype.index_type, values) if is_dictionary_value(values) else values
    return _stored_nested(dtype) if dtype.num_fields else dtype


def _stored_nested(dtype: pa.DataType) -> pa.DataType:
    if pt.is_struct(dtype):
        return pa.struct([stored_field(child) for child in dtype])
    if pt.is_list(dtype) or pt.is_list_view(dtype):
        return pa.list_(stored_field(dtype.value_field))
    if pt.is_large_list(dtype) or pt.is_large_list_view(dtype):
        return pa.large_list(stored_field(dtype.value_field))
    if pt.is_fixed_size_list(dtype):
        item = stored_field(dtype.value_field)
        fixed = pa.list_(item, dtype.list_size)
        return fixed if is_fixed_size_list_type(fixed) else pa.list_(item)
    if pt.is_map(dtype):
        return pa.map_(stored_field(dtype.key_field), stored_field(dtype.item_field))
    return dtype
