"""Adds columns: null, by expression, by function, or joined by key. Writes only new data files, if any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import parse
from lance_spark.expr.values import no_rows
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.columns.column_commit import Evolution, commit_evolution, options_of
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
from lance_spark.table.columns.placeholder_columns import PlaceholderColumns
from lance_spark.table.columns.schema_changes import check_followable
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.merge import Recomputed
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import split_addresses
from lance_spark.table.writing.column_files import NewColumns, PlacedBatch
from lance_spark.table.writing.filled_columns import column_file_version
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions


@dataclass(frozen=True, slots=True)
class ColumnsToAdd:
    """The arguments of `ColumnVerbs.add_columns`, checked as far as that is possible without a table.

    Attributes:
        columns: fields without values, expressions by path, a function, or rows with their keys.
    """

    columns: pa.Schema | Mapping[str, Expr] | BatchFunction | tuple[pa.Table, tuple[str, ...]]
    read_columns: tuple[str, ...] | None = None
    schema: pa.Schema | None = None
    batch_size: int | None = None

    @classmethod
    def of(
        cls,
        columns: Any,
        read_columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> ColumnsToAdd:
        """Raises `InvalidInputError` for arguments that mean nothing together, or that are nothing of the kind."""
        if not callable(columns) and (read_columns is not None or schema is not None):
            raise InvalidInputError("read_columns and schema are for a function")
        fields = _null_fields(columns)
        if fields is not None:
            return cls(fields)
        if isinstance(columns, tuple):
            return cls(_keyed_rows(columns), batch_size=batch_size)
        if isinstance(columns, Mapping) and columns:
            return cls({path: _expression(path, text) for path, text in columns.items()}, batch_size=batch_size)
        if callable(columns):
            return cls(columns, None if read_columns is None else tuple(read_columns), schema, batch_size)
        raise InvalidInputError(
            f"a {type(columns).__name__} cannot be added; give fields, {{name: SQL text}}, a function, or "
            "(rows, [keys])"
        )

    @property
    def null_fields(self) -> pa.Schema | None:
        """The fields of columns without values, None if they have values."""
        return self.columns if isinstance(self.columns, pa.Schema) else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns; () unless rows are joined by keys."""
        return self.columns[1] if isinstance(self.columns, tuple) else ()

    def source(self, known: pa.Schema, names: Sequence[str], batches: ReadColumns) -> ColumnSource:
        """The values, for a table.

        Args:
            known: what expressions and keys may name.
            names: the columns of the table, which a function gets unless others are named.
            batches: reads the table, for the type of a function's columns.

        Raises:
            NotFoundError: a column does not exist.
            InvalidInputError: values cannot be computed.
        """
        assert not isinstance(self.columns, pa.Schema)  # Columns without values have no source.
        if isinstance(self.columns, tuple):
            return KeyedColumns.of(self.columns[0], self.columns[1], known)
        if isinstance(self.columns, Mapping):
            return SqlColumns.of(self.columns, known)
        paths = tuple(names) if self.read_columns is None else self.read_columns
        fields = self.schema if self.schema is not None else _first_result(self.columns, paths, batches(paths))
        return FunctionColumns({field.name: field for field in fields}, paths, self.columns, paths)


ReadColumns = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Gives batches with these columns; at least one, which is empty if the table is."""


def add_columns(
    table: TableLocation, base: Manifest, columns: ColumnsToAdd, options: CommitOptions | None = None
) -> Manifest:
    """The version with new columns. Raises as `ColumnVerbs.add_columns`."""
    fields = columns.null_fields
    if fields is not None:
        return _add_null_columns(table, base, fields, options)
    table.history.check_commits()

    def attempt(version: Manifest) -> Manifest:
        check_followable(version)
        source = columns.source(
            readable(version.schema, data_format(version)),
            version.schema.names(),
            lambda names: _read(table, version, names, columns.batch_size),
        )
        first_id = next_field_id(table.history, version)
        added = AddedColumns.of(version.schema, source, first_id, columns.batch_size)
        by_place = _is_by_place(columns.keys, version)
        evolution = added.evolution(version, Recomputed.BY_PLACE if by_place else Recomputed.ALWAYS)
        return commit_evolution(table, version, evolution, options)

    if _is_by_place(columns.keys, base):
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
        placeholders = PlaceholderColumns(version.schema, addition.schema)
        needed = _grows_maps(version.schema, addition.added) and any(
            placeholders.columns_of(message) for message in version.fragments.messages
        )
        return commit_evolution(table, version, Evolution(addition.schema, placeholders if needed else None), options)

    return retry_on_conflict(attempt, base, table.newest, options_of(options).policy)


def _grows_maps(schema: LanceSchema, added: LanceSchema) -> bool:
    """Whether maps of `schema` get new parts."""
    maps = {node.id for node in schema.walk() if node.logical_type == "map"}
    return any(node.id in maps for node in added.walk())


def _dotted(fields: pa.Schema) -> bool:
    return any("." in name for name in fields.names)


def _null_fields(columns: Any) -> pa.Schema | None:
    if isinstance(columns, pa.Field):
        return pa.schema([columns])
    if isinstance(columns, pa.Schema):
        return columns
    if isinstance(columns, list) and columns and all(isinstance(field, pa.Field) for field in columns):
        return pa.schema(columns)
    return None


def _keyed_rows(columns: tuple[Any, ...]) -> tuple[pa.Table, tuple[str, ...]]:
    if len(columns) != 2 or isinstance(columns[1], (bytes, Mapping)):
        raise InvalidInputError("give rows and the names of their key columns, as (rows, ['key'])")
    source = RowSource.of(columns[0])
    on = (columns[1],) if isinstance(columns[1], str) else tuple(columns[1])
    return pa.Table.from_batches(source.batches, source.schema), on


def _is_by_place(on: Sequence[str], base: Manifest) -> bool:
    return ROW_ADDRESS in on or (ROW_ID in on and not base.has_stable_row_ids)


def _expression(path: Any, text: Any) -> Expr:
    if isinstance(path, str) and isinstance(text, Expr):
        return text
    if not isinstance(path, str) or not isinstance(text, str):
        raise InvalidInputError(f"{path!r}: {text!r} is no column; give names and SQL text")
    return parse(text)


def _first_result(function: BatchFunction, given: Sequence[str], batches: Iterator[pa.RecordBatch]) -> pa.Schema:
    """The columns that the function returns for the first rows; for an empty batch if there are none."""
    return called(function, next(batches).select(list(given))).schema


def _read(
    table: TableLocation, base: Manifest, columns: Sequence[str], batch_size: int | None
) -> Iterator[pa.RecordBatch]:
    scan = scan_of(table.bases(base), base, columns, batch_size)
    for fragment in base.fragments:
        yield from scan.read([fragment])
    yield no_rows(scan.arrow_schema)


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """New columns of a table and their values.

    Attributes:
        schema: all columns of the table afterwards.
        added: the new ones, inside their parent fields.
    """

    schema: LanceSchema
    added: LanceSchema
    source: ColumnSource
    read_columns: Sequence[str] | None
    batch_size: int | None

    @classmethod
    def of(cls, schema: LanceSchema, source: ColumnSource, first_id: int, batch_size: int | None) -> AddedColumns:
        """Columns to add to a table with the columns `schema`, whose first free field id is `first_id`.

        Raises:
            InvalidInputError: a column exists, or values cannot be assigned to rows at its place.
        """
        addition = with_added(schema, arrow_fields(schema, source.fields), first_id)
        paths = None if source.read_columns is None else [*source.read_columns, *around(schema, addition.added)]
        return cls(addition.schema, addition.added, source, paths, batch_size)

    def evolution(self, base: Manifest, recomputed: Recomputed = Recomputed.ALWAYS) -> Evolution:
        """Schema evolution that adds the columns to a version of the table, or of a partition's table."""
        return Evolution(
            self.schema, _Computed(base, self.source, self.read_columns, self.added, self.batch_size), recomputed
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
        for batch in scan.read([fragment]):
            for piece, values in self.source.pieces(batch):
                offsets = split_addresses(piece.column(ROW_ADDRESS).to_numpy())[1]
                yield PlacedBatch(offsets, assemble(piece, values))


def readable(schema: LanceSchema, file_version: FileVersion | None) -> pa.Schema:
    """Schema of the columns that expressions and keys may name."""
    data = to_arrow_schema(with_blob_descriptors(schema, file_version))
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
