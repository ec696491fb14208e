"""Rows that are written already take the place of those with the same keys: the commit of an upsert."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.field import LanceSchema
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.row_level.key_index import KeyIndex
from lance_spark.table.row_level.merge import InsertedKeys, key_rows
from lance_spark.table.row_level.row_writer import WrittenSplit
from lance_spark.table.row_level.write_target import Version, WriteTarget
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.save import CommitOptions


def replace_keys(
    target: WriteTarget[Version],
    keys: pa.Table,
    written: Sequence[WrittenSplit],
    written_keys: pa.Table,
    options: CommitOptions,
) -> Version:
    """Commits new files, and deletes the other rows with one of `keys`; after a conflict on the newest version.

    After an error the files stay.

    Args:
        target: the version that the files were written for.
        keys: the key columns of rows that are replaced or deleted, without nulls; they are top-level columns.
        written_keys: those of the written rows, which are among `keys`.

    Raises:
        RetryableConflictError: another writer has changed one of the rows, or added a row with one of the keys.
        IncompatibleConflictError: another writer has changed the columns.
        Others as `WriteTarget.change_rows`.
    """
    paths = [(name,) for name in keys.column_names]
    index = KeyIndex(_columns(keys), keys.column_names)

    def attempt(version: Version) -> Version:
        current = target.at(version)
        files, splits = current.fitting(written, target), current.splits()
        deleted: dict[str | None, UInt64Array] = {}
        for split in splits:
            rows = key_rows(current.lance_schema, split, paths, index, matched_only=True)
            matches = [addresses[numbers >= 0] for addresses, numbers in rows.read(split.manifest.fragments)]
            deleted[split.key] = np.sort(np.concatenate([np.empty(0, np.uint64), *matches]))
        check = InsertedKeys(current, splits, _columns(written_keys), paths)
        return current.change_rows(deleted, files, options, check=check)

    return retry_on_conflict(attempt, target.version, target.newest, options.policy)


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
