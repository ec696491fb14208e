"""Columns of a result by the names that a caller gives them: a field of a struct is a column of its own.

Plans read nested columns as structs of the fields that are needed. The verbs that give rows to a user take the fields
out of these structs at their end, here, as the reference library does. Takes give structs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import column_values, field_at
from lance_spark.schema.projection import parse_path

NamedPaths: TypeAlias = Mapping[str, tuple[str, ...]]
"""The columns of a result, each with the path of its values in what is read."""


def check_distinct(columns: Sequence[str] | None) -> None:
    """Passes if no column of a result is named twice.

    Raises:
        InvalidInputError: one is.
    """
    if columns is not None and len(set(columns)) < len(columns):
        twice = next(name for place, name in enumerate(columns) if name in columns[:place])
        raise InvalidInputError(f"the columns of a result have different names, {twice!r} is named twice")


def may_name_fields(columns: Sequence[str] | None) -> bool:
    """Whether the result can have other columns than those that are read for it."""
    return columns is not None and any("." in name or "`" in name for name in columns)


def named_paths(columns: Sequence[str], schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """The columns of a result in the caller's order.

    Args:
        columns: distinct names: of columns, of columns that a reader adds, and dotted paths into structs. A path into a
            list or a map leaves its column where it is, with fewer fields.
        schema: the columns of the table.
    """
    tops = set(schema.names)
    paths: dict[str, tuple[str, ...]] = {}
    for name in columns:
        path = (name,) if name in tops else parse_path(name)
        if path[0] in tops and not _is_in_structs(schema.field(path[0]).type, path[1:]):
            name, path = path[0], path[:1]
        paths[name] = path
    return paths


def _is_in_structs(dtype: pa.DataType, path: Sequence[str]) -> bool:
    for name in path:
        if not pt.is_struct(dtype) or dtype.get_field_index(name) < 0:
            return False
        dtype = dtype.field(name).type
    return True


def picked(rows: pa.RecordBatch, paths: NamedPaths) -> pa.RecordBatch:
    """The columns at `paths` of rows that were read."""
    if not paths:
        return rows.select([])
    arrays = [column_values(rows, path) for path in paths.values()]
    return pa.RecordBatch.from_arrays(arrays, schema=picked_schema(rows.schema, paths))


def picked_schema(schema: pa.Schema, paths: NamedPaths) -> pa.Schema:
    """The schema of `picked` rows."""
    fields = [field_at(schema, path).with_name(name) for name, path in paths.items()]
    return pa.schema(fields, metadata=schema.metadata)


def picked_table(rows: pa.Table, paths: NamedPaths) -> pa.Table:
    """`picked` of all rows of a table; itself if these are its columns."""
    if list(paths) == rows.column_names and all(len(path) == 1 for path in paths.values()):
        return rows
    batches = [picked(batch, paths) for batch in rows.to_batches()]
    if not paths:
        return pa.Table.from_batches(batches) if batches else rows.select([])
    return pa.Table.from_batches(batches, schema=picked_schema(rows.schema, paths))
