"""Converts rows of an append to the columns of the table: by name, in the table's types (Lance table format, "Append").

Column order is free, and nullable columns may be missing. Types must be equal except where they hold the same values:
string and large string, binary and large binary, list and large list, their views, lists of one size in columns of
lists, dictionaries and plain values, and columns of type null; JSON columns take text. All other conversions are
rejected, because a lossy cast must be the user's own decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import json_documents
from lance_spark.layouts.arrow_take import take
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.blob import BLOB_KEY, DESCRIPTION, INGEST, PLACE, SOURCE
from lance_spark.schema.columns import BLOB_V2_EXTENSION
from lance_spark.schema.extension import EXTENSION_NAME, is_json_field
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.table.writing.array_layouts import (
    dictionary_values,
    encoded,
    fixed_size_items,
    lists_of,
    run_values,
    view_items,
)
from lance_spark.table.writing.stored_types import stored_type

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
        given: the schema of the batches.
        computed: columns that may be missing because they are computed later.

    Attributes:
        fields: the fields of the table that converted batches have, in the table's order.
        targets: the same columns in Arrow's types.

    Raises:
        InvalidInputError: an unknown column, a column of another type, or a missing column that is not nullable.
    """

    def __init__(self, table: LanceSchema, given: pa.Schema, computed: Collection[str] = ()) -> None:
        _check_names(table.names(), given.names, "")
        present = set(given.names)
        for field in table.fields:
            if field.name not in present and not field.nullable and field.name not in computed:
                raise InvalidInputError(f"column {field.name!r} is missing, and the table does not let it be null")
        self.fields = tuple(field for field in table.fields if field.name in present)
        self.targets = [to_arrow_field(field) for field in self.fields]
        targets = {target.name: target for target in self.targets}
        for column in given:
            _check_type(column.type, targets[column.name], column.name)
        self._given = given
        self._fits = not any(map(has_blob_type, self.targets)) and given.equals(
            pa.schema(self.targets, metadata=given.metadata), check_metadata=True
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

    def _differs_in_blobs(self, given: pa.Schema) -> bool:
        """Whether all but the form of blobs is as in the first batch."""
        if given.names != self._given.names:
            return False
        targets = {target.name: target for target in self.targets}
        for field, first in zip(given, self._given, strict=True):
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


def _check_names(known: tuple[str, ...] | list[str], given: list[str], where: str) -> None:
    if len(set(given)) != len(given):
        raise InvalidInputError(f"the data has two columns of one name{where}")
    unknown = sorted(set(given) - set(known))
    if unknown:
        index = [name for name in unknown if _UNNAMED_INDEX.fullmatch(name)]
        hint = f". {index[0]!r} is the index of the DataFrame: reset_index(drop=True) leaves it out" if index else ""
        names, others = ", ".join(map(repr, unknown)), ", ".join(map(repr, known))
        raise InvalidInputError(f"the table has no column {names}{where}; it has {others}{hint}")


def _check_type(given: pa.DataType, target: pa.Field, path: str) -> None:
    given = _storage(given)
    wanted = target.type
    if is_blob_type(target):
        _check_blob(given, path)
        return
    given = _storage(given.value_type) if pt.is_dictionary(given) else given
    wanted = wanted.value_type if pt.is_dictionary(wanted) else wanted
    if is_json_field(target) and any(kind(given) for kind in _TEXT):
        return
    if given == wanted or pt.is_null(given) or _same_kind(given, wanted, _TEXT) or _same_kind(given, wanted, _BYTES):
        return
    if pt.is_struct(given) and pt.is_struct(wanted):
        names = [given.field(number).name for number in range(given.num_fields)]
        _check_names([field.name for field in wanted], names, f" inside of {path!r}")
        for field in wanted:
            number = given.get_field_index(field.name)
            if number >= 0:
                _check_type(given.field(number).type, field, f"{path}.{field.name}")
            elif not field.nullable:
                raise InvalidInputError(f"column {path}.{field.name} is missing, and the table does not let it be null")
        return
    has_size = pt.is_fixed_size_list(given)
    if (
        _same_kind(given, wanted, _LISTS)
        or (has_size and any(kind(wanted) for kind in _LISTS))
        or (has_size and pt.is_fixed_size_list(wanted) and given.list_size == wanted.list_size)
    ):
        _check_type(given.value_type, wanted.value_field, f"{path}.{wanted.value_field.name}")
        return
    if pt.is_map(given) and pt.is_map(wanted):
        _check_type(given.key_type, wanted.key_field, f"{path}.key")
        _check_type(given.item_type, wanted.item_field, f"{path}.value")
        return
    raise InvalidInputError(f"column {path!r} has type {given}, the table has {wanted}; cast it first")


def is_blob_type(field: pa.Field) -> bool:
    """True for a blob column in the form in which the table's schema declares it: a struct, or of old files binary."""
    metadata = field.metadata or {}
    if pt.is_struct(field.type):
        return metadata.get(_EXTENSION) == BLOB_V2_EXTENSION.encode()
    return BLOB_KEY.encode() in metadata and pt.is_large_binary(field.type)


def has_blob_type(field: pa.Field) -> bool:
    """True for a blob column, and for a struct that has one."""
    return is_blob_type(field) or (pt.is_struct(field.type) and any(map(has_blob_type, field.type)))


def _check_blob(given: pa.DataType, path: str) -> None:
    if pt.is_null(given) or any(kind(given) for kind in _BYTES):
        return
    members = {given.field(number).name for number in range(given.num_fields)} if pt.is_struct(given) else set()
    if members == set(_SOURCED) or ("data" in members and members <= {"data", "uri", "position", "size", INGEST}):
        return
    if "kind" in members or members == _PLACED:
        raise InvalidInputError(
            f"column {path!r} has descriptions of blobs, which mean nothing in another table; write the bytes "
            "(read them with blob_handling='all_binary')"
        )
    raise InvalidInputError(f"column {path!r} has blobs: binary values, or structs of data and uri, not {given}")


def _convert_blob(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Bytes, or a struct with some of the members, as the struct or the values that the schema declares."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_struct(array.type):
        if max(array.type.get_field_index(name) for name in (SOURCE.name, INGEST)) >= 0 or not pt.is_struct(wanted):
            return array
        known = {field.name for field in wanted}
        used = [field.name for field in array.type if array.field(field.name).null_count < len(array)]
        lost = [name for name in used if name not in known]
        if lost:
            raise InvalidInputError(f"the blob column was declared without {lost[0]!r}, which some of the rows have")
        return _convert_struct(array, wanted)
    if pt.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if not pt.is_struct(wanted):
        return array.cast(wanted)
    children = [
        array.cast(field.type) if field.name == "data" else pa.nulls(len(array), field.type) for field in wanted
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _same_kind(given: pa.DataType, wanted: pa.DataType, kinds: tuple[Callable[[pa.DataType], bool], ...]) -> bool:
    return any(kind(given) for kind in kinds) and any(kind(wanted) for kind in kinds)


def _storage(dtype: pa.DataType) -> pa.DataType:
    while isinstance(dtype, pa.BaseExtensionType):
        dtype = dtype.storage_type
    return dtype


def _in_field(array: pa.Array, field: pa.Field) -> pa.Array:
    return _convert_blob(array, field.type) if is_blob_type(field) else converted(array, field.type)


def converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """`array` as `wanted`, a compatible type: struct members are matched by name, missing ones are null."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == wanted:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if pt.is_run_end_encoded(array.type):
        plain = stored_type(array.type.value_type)
        return converted(run_values(array, converted(array.values, plain)), wanted)
    if pt.is_dictionary(wanted):
        return _convert_to_dictionary(array, wanted)
    if pt.is_dictionary(array.type):
        plain = stored_type(_storage(array.type.value_type))
        return converted(dictionary_values(array, converted(array.dictionary, plain)), wanted)
    if pt.is_struct(wanted):
        return _convert_struct(array, wanted)
    if pt.is_list(wanted) or pt.is_large_list(wanted):
        return _convert_list(array, wanted)
    if pt.is_fixed_size_list(wanted):
        items = converted(array.values, wanted.value_type)
        return pa.Array.from_buffers(wanted, len(array), array.buffers()[:1], offset=array.offset, children=[items])
    if pt.is_map(wanted):
        entries = pa.struct([wanted.key_field, wanted.item_field])
        keys, items = converted(array.keys, wanted.key_type), converted(array.items, wanted.item_type)
        children = [pa.StructArray.from_arrays([keys, items], fields=list(entries))]
        return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=children)
    if _same_kind(array.type, array.type, _TEXT) and _same_kind(wanted, wanted, _BYTES):
        # `_check_type` lets text into JSON columns, and into no others that are binary.
        return json_documents(array, wanted)
    return array.cast(wanted)


def _convert_struct(array: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    children = []
    for field in wanted:
        number = array.type.get_field_index(field.name)
        child = pa.nulls(len(array), field.type) if number < 0 else _in_field(array.field(number), field)
        children.append(child)
    mask = array.is_null() if array.null_count else None
    fields = [field.with_type(child.type) for field, child in zip(wanted, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _convert_to_dictionary(array: pa.Array, wanted: pa.DictionaryType) -> pa.Array:
    if pt.is_dictionary(array.type):
        values = converted(array.dictionary, wanted.value_type)
        array = pa.DictionaryArray.from_arrays(array.indices, values)
    else:
        array = converted(array, wanted.value_type)
    return encoded(array, wanted)


def _convert_list(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not _same_kind(array.type, wanted, _LISTS):
        sizes, places = fixed_size_items(array) if pt.is_fixed_size_list(array.type) else view_items(array)
        return lists_of(array, sizes, take(converted(array.values, wanted.value_type), places), wanted)
    if pt.is_list(array.type) != pt.is_list(wanted):
        flavour = pa.list_ if pt.is_list(wanted) else pa.large_list
        array = array.cast(flavour(array.type.value_field))
    items = converted(array.values, wanted.value_type)
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=[items])
