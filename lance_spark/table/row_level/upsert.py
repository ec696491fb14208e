"""Rows that are written already take the place of those with the same keys: the commit of an upsert."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.field import LanceSchema
from lance_spark.table.row_level.key_index import KeyIndex
from lance_spark.table.row_level.merge import InsertedKeys, key_rows
from lance_spark.table.row_level.row_target import RowTarget, Version, Written
from lance_spark.table.rows.row_address import UInt64Array


def replace_keys(
    target: RowTarget[Version, Written], keys: pa.Table, written: Written, written_keys: pa.Table
) -> Version:
    """The version after `target` with the rows `written`, and without the other rows that have one of `keys`.

    Args:
        keys: the key columns of rows that are replaced or deleted, without nulls; they are top-level columns.
        written_keys: those of the written rows, which are among `keys`.

    Raises:
        RetryableConflictError: another writer has changed one of the rows, or added a row with one of the keys.
        Others as `RowTarget.commit`.
    """
    paths = [(name,) for name in keys.column_names]
    index = KeyIndex(_columns(keys), keys.column_names)
    splits = target.splits()
    deleted: dict[str | None, UInt64Array] = {}
    for split in splits:
        rows = key_rows(target.lance_schema, split, paths, index, matched_only=True)
        found = [addresses[numbers >= 0] for addresses, numbers in rows.read(split.manifest.fragments)]
        found.append(np.empty(0, np.uint64))
        deleted[split.key] = np.sort(np.concatenate(found))
    check = InsertedKeys(target, splits, _columns(written_keys), paths)
    fields = [node.id for field in target.lance_schema.fields for node in field.walk()]
    return target.commit(deleted, written, changed_fields=fields, check=check)


def _columns(keys: pa.Table) -> list[pa.Array]:
    return [column.combine_chunks() for column in keys.columns]


def key_schema(table: LanceSchema, names: Sequence[str]) -> pa.Schema:
    """The key columns of a table, as keys are compared with them.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: no column, one that is named twice, or one of a type that cannot be a key.
    """
    fields = {field.name: field for field in table.fields}
    for name in names:
        if name not in fields:
            raise NotFoundError(f"there is no key column {name!r}; the table has {', '.join(fields)}")
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"the key {', '.join(names) or '(no column)'} must be one or more different columns")
    schema = pa.schema([to_arrow_field(fields[name]) for name in names])
    KeyIndex([pa.nulls(0, field.type) for field in schema], schema.names)
    return schema
