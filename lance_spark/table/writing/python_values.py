"""Rows of plain Python and numpy values as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError

_NO_COLUMN = (str, bytes, bytearray, Mapping, set, frozenset)


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    """The rows as a table with all of their keys, in the order in which they come first; a missing key is null.

    Raises:
        InvalidInputError: as `table_of_columns`.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return table_of_columns({name: [row.get(name) for row in rows] for name in names}, schema, num_rows=len(rows))


def table_of_columns(columns: Mapping[str, Any], schema: pa.Schema | None, *, num_rows: int | None = None) -> pa.Table:
    """The columns as a table; numpy arrays of two dimensions are lists of one size.

    Args:
        schema: the columns of the table; those that are not given are null. By default the given ones, with the types
            that pyarrow infers.

    Raises:
        InvalidInputError: values without a common type, or of another one than in `schema`; a column that `schema`
            lacks; or the lengths differ.
    """
    for name in columns:
        if not isinstance(name, str):
            raise InvalidInputError(f"the name {name!r} of a column is no text")
        if schema is not None and name not in schema.names:
            raise InvalidInputError(f"the data has a column {name!r}, which the schema given does not have")
    arrays = {
        name: _column(name, values, None if schema is None else schema.field(name).type)
        for name, values in columns.items()
    }
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(f"the columns have different lengths: {lengths}")
    if schema is None:
        return pa.table(arrays)
    length = next(iter(lengths.values()), num_rows or 0)
    filled = [arrays.get(field.name, pa.nulls(length, field.type)) for field in schema]
    return pa.Table.from_arrays(filled, schema=schema)


def _column(name: str, values: Any, dtype: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, _NO_COLUMN) or not isinstance(values, Iterable):
        raise InvalidInputError(f"column {name!r} is a {type(values).__name__}; give a list or an array of its values")
    try:
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            array = values
        elif isinstance(values, np.ndarray) and values.ndim == 2:
            array = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
        elif isinstance(values, (list, tuple)) and dtype is not None:
            for value in values:
                check_value(value, dtype, name)
            return pa.array(values, dtype)
        else:
            array = pa.array(values)
        return array if dtype is None or array.type == dtype else array.cast(dtype)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        kind = "" if dtype is None else f" of type {dtype}"
        raise InvalidInputError(f"the values of column {name!r} make no Arrow array{kind}: {error}") from error


def check_value(value: object, type_: pa.DataType, column: str) -> None:
    """Refuses what pyarrow would leave out without a word: unknown fields of structs, and fractions of integers."""
    if pa.types.is_integer(type_) and isinstance(value, float) and not value.is_integer():
        raise InvalidInputError(f"column {column!r}: {value!r} is no {type_}")
    if pa.types.is_struct(type_) and isinstance(value, Mapping):
        names = [child.name for child in type_]
        unknown = [name for name in value if name not in names]
        if unknown:
            raise InvalidInputError(f"column {column!r} has no field {unknown[0]!r}; it has {', '.join(names)}")
        for child in type_:
            check_value(value.get(child.name), child.type, column)
    elif pa.types.is_map(type_) and isinstance(value, (Mapping, Sequence)):
        for entry in value.items() if isinstance(value, Mapping) else value:
            if isinstance(entry, tuple) and len(entry) == 2:
                check_value(entry[1], type_.item_type, column)
    elif not pa.types.is_map(type_) and pa.types.is_nested(type_) and isinstance(value, Sequence):
        for item in value:
            check_value(item, type_.value_type, column)
