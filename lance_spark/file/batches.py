"""Validation of a writer's input: columns by name, with the schema's types, without nulls where it forbids them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.leaf.values import require_whole_structs
from lance_spark.layouts.shred import shred, storage_of
from lance_spark.layouts.v2_0.write import visible_items
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import is_array_leaf, is_blob, is_leaf
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import written_path


class BatchChecker:
    """Checks batches against one schema and returns their columns in the order of its fields."""

    def __init__(self, schema: LanceSchema, version: FileVersion) -> None:
        self._version = version
        self._fields = schema.fields
        self._names = list(schema.names())
        self._types = [to_arrow_type(top) for top in schema.fields]
        self._unchecked = [_is_unchecked(top) for top in schema.fields]

    def columns(self, batch: pa.RecordBatch | pa.Table) -> list[list[pa.Array]]:
        """For each top-level field the arrays of its column; extension arrays as their storage, views as plain arrays.

        Raises:
            InvalidInputError: a column is missing, unknown, of another type, or null where the schema forbids it.
        """
        result = []
        in_order = zip(self._fields, self._types, self._unchecked, self._in_order(batch), strict=True)
        for field, dtype, unchecked, column in in_order:
            arrays = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            arrays = [_in_type(array, dtype, field.name) for array in arrays if len(array)]
            if unchecked:
                result.append(arrays)
                continue
            first_row = 0
            for array in arrays:
                _check_nulls(field, array, first_row)
                if self._version is FileVersion.V2_0:
                    _check_valid_structs(field, array)
                first_row += len(array)
            result.append(arrays)
        return result

    def _in_order(self, batch: pa.RecordBatch | pa.Table) -> list[pa.Array | pa.ChunkedArray]:
        """The columns in the order of the schema, which has exactly these."""
        names = batch.schema.names
        if names == self._names:
            columns: list[pa.Array | pa.ChunkedArray] = batch.columns
            return columns
        if sorted(names) == sorted(self._names):
            return [batch.column(name) for name in self._names]
        missing = sorted(set(self._names) - set(names))
        unknown = sorted(set(names) - set(self._names))
        parts = [f"it has no column {', '.join(map(repr, missing))}"] if missing else []
        parts += [f"the file has no column {', '.join(map(repr, unknown))}"] if unknown else []
        parts = parts or ["a column is in it twice"]
        raise InvalidInputError(f"the batch does not fit the schema: {'; '.join(parts)}")


def _is_unchecked(top: Field) -> bool:
    """Whether the values of a column need no look: nulls are allowed, and it is neither a struct nor has one."""
    return is_leaf(top) and top.nullable and top.logical_type != "struct"


def _in_type(array: pa.Array, dtype: pa.DataType, where: str) -> pa.Array:
    array = storage_of(array)
    if array.type == dtype:
        return array
    if not _same_values(array.type, dtype):
        raise InvalidInputError(f"column {where!r} has type {array.type} where the schema has {dtype}; cast it first")
    return array.cast(dtype) if has_view(array.type) else array


def _same_values(given: pa.DataType, wanted: pa.DataType) -> bool:
    """True if the types differ only in unwritten parts: names of list items, nullability, extension types, views."""
    while isinstance(given, pa.BaseExtensionType):
        given = given.storage_type
    if pa.types.is_string_view(given) or pa.types.is_binary_view(given):
        return bool(wanted == (pa.string() if pa.types.is_string_view(given) else pa.binary()))
    if given.id != wanted.id:
        return False
    if pa.types.is_struct(given):
        pairs = zip(given, wanted, strict=False)
        return given.num_fields == wanted.num_fields and all(
            ours.name == theirs.name and _same_values(ours.type, theirs.type) for ours, theirs in pairs
        )
    if pa.types.is_map(given):
        return _same_values(given.key_type, wanted.key_type) and _same_values(given.item_type, wanted.item_type)
    if pa.types.is_fixed_size_list(given):
        return given.list_size == wanted.list_size and _same_values(given.value_type, wanted.value_type)
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return _same_values(given.value_type, wanted.value_type)
    return bool(given == wanted)


def has_view(dtype: pa.DataType) -> bool:
    """Whether a type is a view of texts or bytes, or has one inside."""
    if pa.types.is_string_view(dtype) or pa.types.is_binary_view(dtype):
        return True
    return any(has_view(dtype.field(number).type) for number in range(dtype.num_fields))


def _check_nulls(top: Field, array: pa.Array, first_row: int) -> None:
    """Raises if a non-nullable field is null where its parents are not."""
    for path, steps in leaf_steps(top):
        _check_leaf(path, array, steps)
        if all(field.nullable for field in path) or not _may_be_null(path, array, steps):
            continue
        rows = shred(array, steps)
        for depth, field in enumerate(path):
            code = 2 * depth + 1
            if not field.nullable and rows.present >> code & 1 and rows.codes is not None:
                item = int(np.flatnonzero(rows.codes == code)[0])
                row = first_row + _row_of(rows.reps, item, rows.num_items, len(array))
                name = written_path(path[: depth + 1])
                raise InvalidInputError(f"column {name!r} is not nullable but is null in row {row} of the batch")


def _check_leaf(path: tuple[Field, ...], array: pa.Array, steps: tuple[int, ...]) -> None:
    """Raises for nulls that the storage layout of the leaf cannot represent."""
    if path[-1].logical_type != "struct":
        return
    rows = shred(array, steps)
    name = written_path(path)
    if path[-1].children:
        require_whole_structs(rows.values, name)
    elif rows.codes is not None:
        raise UnsupportedFeatureError(
            f"column {name!r}: a struct without fields cannot be null, nor below a null struct; remove the field",
            feature="empty struct",
        )


def _check_valid_structs(top: Field, array: pa.Array) -> None:
    """Raises for null structs, which files of version 2.0 cannot represent."""
    for path, steps in node_steps(top):
        if path[-1].logical_type != "struct" or is_blob(path[-1]):
            continue
        values = node_values(array, steps)
        packed = is_array_leaf(path[-1])
        if values.null_count or (packed and any(values.field(n).null_count for n in range(values.type.num_fields))):
            name = written_path(path)
            kind = "packed struct" if packed else "struct"
            raise UnsupportedFeatureError(
                f"column {name!r} has a null {kind}, which files of version 2.0 cannot store; "
                "write version 2.1 or later, or convert an existing table with upgrade_files",
                feature="null struct",
                version=FileVersion.V2_1.value,
            )


def _row_of(reps: np.ndarray[tuple[int], np.dtype[np.uint16]] | None, item: int, num_items: int, num_rows: int) -> int:
    if reps is None:
        return item * num_rows // num_items
    return int((reps[: item + 1] == reps[0]).sum()) - 1


def _may_be_null(path: tuple[Field, ...], array: pa.Array, steps: tuple[int, ...]) -> bool:
    """True if an array of a non-nullable field has nulls, even if masked by nulls of a parent."""
    for depth, field in enumerate(path):
        array = storage_of(array)
        hidden = pa.types.is_dictionary(array.type) and array.dictionary.null_count
        if not field.nullable and (array.null_count or hidden):
            return True
        if depth < len(steps):
            array = array.field(steps[depth]) if pa.types.is_struct(array.type) else array.values
    return False


def node_values(array: pa.Array, steps: tuple[int, ...]) -> pa.Array:
    """The values of a field below a top-level field, without those below null lists."""
    array = storage_of(array)
    for step in steps:
        array = storage_of(array.field(step) if pa.types.is_struct(array.type) else visible_items(array))
    return array


def node_steps(field: Field) -> list[tuple[tuple[Field, ...], tuple[int, ...]]]:
    """For each field that owns a column in a file of version 2.0: the path of fields to it, and its child indices."""
    below = [] if is_array_leaf(field) else list(enumerate(field.children))
    deeper = [((field, *path), (number, *steps)) for number, child in below for path, steps in node_steps(child)]
    return [((field,), ()), *deeper]


def leaf_steps(field: Field) -> list[tuple[tuple[Field, ...], tuple[int, ...]]]:
    """For each leaf below `field`: the path of fields to it, and the child indices of that path."""
    if is_leaf(field):
        return [((field,), ())]
    return [
        ((field, *path), (number, *steps))
        for number, child in enumerate(field.children)
        for path, steps in leaf_steps(child)
    ]
