"""Adds columns: null, by expression, by function, or joined by key. Writes only new data files, if any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql import parse
from lance_spark.file.writable import require_writable
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.columns.column_commit import (
    Evolution,
    NewColumns,
    column_file_version,
    commit_evolution,
    options_of,
)
from lance_spark.table.columns.column_files import PlacedBatch
from lance_spark.table.columns.new_columns import (
    Assembler,
    BatchFunction,
    ColumnSource,
    FunctionColumns,
    KeyedColumns,
    SqlColumns,
    around,
    arrow_fields,
    called,
)
from lance_spark.table.columns.schema_changes import check_followable
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations import Recomputed
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import split_addresses
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions


def add_columns(
    table: TableLocation,
    base: Manifest,
    columns: Any,
    *,
    read_columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    batch_size: int | None = None,
    options: CommitOptions | None = None,
) -> Manifest:
    """The version with new columns; arguments as `ColumnVerbs.add_columns`.

    Raises:
        NotFoundError: a column to read does not exist.
        InvalidInputError: a new column already exists, or values cannot be computed. Nothing was changed.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
    """
    if not callable(columns) and (read_columns is not None or schema is not None):
        raise InvalidInputError("read_columns and schema are for a function")
    fields = null_fields(columns)
    if fields is not None:
        return _add_null_columns(table, base, fields, options)
    rows = _keyed_rows(columns)
    table.history.check_commits()

    def attempt(version: Manifest) -> Manifest:
        check_followable(version)
        new = _new_columns(table, version, columns, rows, read_columns, schema, batch_size)
        return commit_evolution(table, version, _evolution(table, version, new, batch_size), options)

    if rows is not None and _is_by_place(rows[1], base):
        # In a newer version the addresses may mean other rows.
        return attempt(base)
    return retry_on_conflict(attempt, base, table.newest, options_of(options).policy)


def _add_null_columns(
    table: TableLocation, base: Manifest, fields: pa.Schema, options: CommitOptions | None
) -> Manifest:
    for field in fields:
        if not field.nullable:
            raise InvalidInputError(f"column {field.name!r} would be null, which it does not allow")

    def attempt(version: Manifest) -> Manifest:
        check_followable(version)
        names = arrow_fields(version.schema, {field.name: field for field in fields}) if _dotted(fields) else fields
        addition = with_added(version.schema, names, next_field_id(table.history, version))
        if any(has_blobs(field) for field in addition.added.fields):
            require_writable(addition.added, column_file_version(version, addition.added))
        return commit_evolution(table, version, Evolution(addition.schema), options)

    return retry_on_conflict(attempt, base, table.newest, options_of(options).policy)


def _dotted(fields: pa.Schema) -> bool:
    return any("." in name for name in fields.names)


def null_fields(columns: Any) -> pa.Schema | None:
    """The fields of columns without values, None if `columns` is something else."""
    if isinstance(columns, pa.Field):
        return pa.schema([columns])
    if isinstance(columns, pa.Schema):
        return columns
    if isinstance(columns, list) and columns and all(isinstance(field, pa.Field) for field in columns):
        return pa.schema(columns)
    return None


def _keyed_rows(columns: Any) -> tuple[pa.Table, tuple[str, ...]] | None:
    if not isinstance(columns, tuple):
        return None
    if len(columns) != 2 or isinstance(columns[1], (bytes, Mapping)):
        raise InvalidInputError("give rows and the names of their key columns, as (rows, ['key'])")
    source = RowSource.of(columns[0])
    on = (columns[1],) if isinstance(columns[1], str) else tuple(columns[1])
    return pa.Table.from_batches(source.batches, source.schema), on


def _is_by_place(on: Sequence[str], base: Manifest) -> bool:
    return ROW_ADDRESS in on or (ROW_ID in on and not base.has_stable_row_ids)


def _new_columns(
    table: TableLocation,
    base: Manifest,
    columns: Any,
    rows: tuple[pa.Table, tuple[str, ...]] | None,
    read_columns: Sequence[str] | None,
    schema: pa.Schema | None,
    batch_size: int | None,
) -> ColumnSource:
    known = readable(base)
    if rows is not None:
        return KeyedColumns.of(*rows, known)
    if isinstance(columns, Mapping) and columns:
        return SqlColumns.of({path: _expression(path, text) for path, text in columns.items()}, known)
    if callable(columns):
        given = tuple(read_columns) if read_columns is not None else base.schema.names()
        fields = schema if schema is not None else _first_result(table, base, columns, given, batch_size)
        return FunctionColumns({field.name: field for field in fields}, given, columns, given)
    raise InvalidInputError(
        f"a {type(columns).__name__} cannot be added; give fields, {{name: SQL text}}, a function, or (rows, [keys])"
    )


def _expression(path: Any, text: Any) -> Expr:
    if isinstance(path, str) and isinstance(text, Expr):
        return text
    if not isinstance(path, str) or not isinstance(text, str):
        raise InvalidInputError(f"{path!r}: {text!r} is no column; give names and SQL text")
    return parse(text)


def _first_result(
    table: TableLocation, base: Manifest, function: BatchFunction, given: tuple[str, ...], batch_size: int | None
) -> pa.Schema:
    """The columns that the function returns for the first rows; for an empty batch if there are none."""
    scan = scan_of(table.bases(base), base, given, batch_size)
    for fragment in base.fragments:
        for batch in scan.read_fragment(fragment):
            return called(function, batch.select(list(given))).schema
    empty = pa.RecordBatch.from_pylist([], schema=scan.arrow_schema)
    return called(function, empty.select(list(given))).schema


def _evolution(table: TableLocation, base: Manifest, new: ColumnSource, batch_size: int | None) -> Evolution:
    fields = arrow_fields(base.schema, new.fields)
    addition = with_added(base.schema, fields, next_field_id(table.history, base))
    wanted = None if new.read_columns is None else [*new.read_columns, *around(base.schema, addition.added)]
    by_place = isinstance(new, KeyedColumns) and _is_by_place([key.name for key in new.keys], base)
    return Evolution(
        addition.schema,
        _Computed(base, new, wanted, addition.added, batch_size),
        Recomputed.BY_PLACE if by_place else Recomputed.ALWAYS,
    )


@dataclass(frozen=True, slots=True)
class _Computed:
    """Values of new columns for the rows of fragments."""

    base: Manifest
    source: ColumnSource
    wanted: Sequence[str] | None
    added: LanceSchema
    batch_size: int | None

    def __call__(self, fragment: DataFragment, bases: Bases) -> NewColumns:
        return NewColumns(self.added, self._batches(fragment, bases))

    def _batches(self, fragment: DataFragment, bases: Bases) -> Iterator[PlacedBatch]:
        assemble = Assembler(self.base.schema, self.added)
        scan = scan_of(bases, self.base, self.wanted, self.batch_size or self.source.batch_rows)
        for batch in scan.read_fragment(fragment):
            for piece, values in self.source.pieces(batch):
                offsets = split_addresses(piece.column(ROW_ADDRESS).to_numpy())[1]
                yield PlacedBatch(offsets, assemble(piece, values))


def readable(base: Manifest) -> pa.Schema:
    """What expressions and keys may name."""
    data = to_arrow_schema(with_blob_descriptors(base.schema, data_format(base)))
    return pa.schema([*data, *(field for name, field in SYSTEM_FIELDS.items() if name not in data.names)])


def scan_of(bases: Bases, base: Manifest, columns: Sequence[str] | None, batch_size: int | None) -> Scan:
    """A scan of columns and the row addresses.

    Raises:
        InvalidInputError: the table has a column of that name.
    """
    schema: LanceSchema = with_blob_descriptors(base.schema, data_format(base))
    if ROW_ADDRESS in schema.names():
        raise InvalidInputError(
            f"rows of a table with a column {ROW_ADDRESS!r} cannot be identified; rename the column"
        )
    return Scan.of(
        schema,
        bases,
        columns=columns,
        with_row_address=True,
        stable_row_ids=base.has_stable_row_ids,
        batch_rows=batch_size,
    )
