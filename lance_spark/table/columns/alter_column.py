"""Changes one column: its name, type, nullability and metadata, in one version."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.schema import evolution
from lance_spark.schema.arrow import from_arrow_field, to_arrow_field, to_arrow_type, with_metadata
from lance_spark.schema.evolution import check_widening
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import prune
from lance_spark.table.bases import Bases
from lance_spark.table.columns.column_commit import Evolution, commit_evolution, options_of
from lance_spark.table.columns.schema_changes import check_followable, check_nulls, forbids_more_nulls, project
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.update_map import UpdateMap
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.versions.changes import update_field_metadata
from lance_spark.table.writing.column_files import NewColumns, PlacedBatch, physical_batches
from lance_spark.table.writing.save import CommitOptions

COMMENT = "comment"
"""The key of a field's metadata for its comment."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """The changes of the column at `path`; None means unchanged. Arguments as `ColumnVerbs.alter_column`."""

    path: str
    name: str | None = None
    data_type: pa.DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    metadata: Mapping[str, str | None] | None = None

    def __post_init__(self) -> None:
        if self.data_type is not None and not isinstance(self.data_type, pa.DataType):
            raise InvalidInputError(f"{self.data_type!r} is no type of pyarrow")

    @property
    def entries(self) -> dict[str, str | None]:
        """The changed metadata entries."""
        entries = dict(self.metadata or {})
        if self.comment is not None:
            entries[COMMENT] = self.comment or None
        return entries

    def of_schema(self, schema: LanceSchema) -> LanceSchema:
        """The schema with all changes except that of the type.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: the name is taken.
        """

        def changed(field: Field) -> Field:
            if self.nullable is not None:
                field = dataclasses.replace(field, nullable=self.nullable)
            if self.entries:
                field = with_metadata(field, UpdateMap(self.entries).applied_to_bytes(field.metadata))
            return field

        schema = evolution.replaced(schema, self.path, changed)
        return schema if self.name is None else evolution.renamed(schema, {self.path: self.name})


def alter_column(
    table: TableLocation, base: Manifest, change: Alteration, options: CommitOptions | None = None
) -> Manifest:
    """The version with the column changed; `base` if nothing changes.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: the name is taken, the type cannot hold all values, or there are nulls.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: this release cannot write to the table, or does not support this column.
    """
    field = evolution.field_at(base.schema, change.path)
    if change.data_type is None or to_arrow_type(field) == change.data_type:
        if change.name is None and change.nullable is None and change.entries:
            return update_field_metadata(table, base, {change.path: change.entries}, options_of(options).policy)
        return project(table, base, change.of_schema, options)
    dtype = change.data_type
    table.history.check_commits()

    def attempt(version: Manifest) -> Manifest:
        check_followable(version)
        new_id = FieldId(next_field_id(table.history, version))
        return commit_evolution(table, version, conversion(table, version, change, dtype, new_id), options)

    return retry_on_conflict(attempt, base, table.newest, options_of(options).policy)


def converted_schema(schema: LanceSchema, change: Alteration, dtype: pa.DataType, new_id: FieldId) -> LanceSchema:
    """The schema with the column changed, with type `dtype` and a new id.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: the name is taken, or the type cannot hold all values.
    """
    old = evolution.field_at(schema, change.path)
    check_widening(to_arrow_type(old), dtype, change.path)
    return _with_field(change.of_schema(schema), old.id, _renumbered(dtype, new_id))


def _renumbered(dtype: pa.DataType, new_id: FieldId) -> evolution.FieldChange:
    model = from_arrow_field(pa.field("f", dtype), first_id=new_id)
    return lambda field: dataclasses.replace(field, id=new_id, logical_type=model.logical_type, encoding=model.encoding)


def conversion(
    table: TableLocation, base: Manifest, change: Alteration, dtype: pa.DataType, new_id: FieldId
) -> Evolution:
    """The column with a new id and its values converted. Raises as `alter_column`."""
    along = evolution.fields_along(base.schema, change.path)
    old = along[-1]
    schema = converted_schema(base.schema, change, dtype, new_id)
    target = change.of_schema(base.schema)
    check_nulls(table, base, target)
    preserves = not forbids_more_nulls(base.schema, target)
    # Other readers need all parts of a map in one file.
    whole = next((node for node in along[:-1] if node.logical_type == "map"), old)
    written = {node.id for node in whole.walk()}
    before = prune((along[0],), written)[0]
    # Under the old name, as values are converted by name; the column names inside a file do not matter.
    after = prune(_with_field(base.schema, old.id, _renumbered(dtype, new_id)).fields, written | {new_id})[0]
    return Evolution(schema, _Converted(before, after), preserves_nullability=preserves)


def _with_field(schema: LanceSchema, field_id: FieldId, change: evolution.FieldChange) -> LanceSchema:
    return evolution.mapped(schema, lambda field: change(field) if field.id == field_id else field)


@dataclass(frozen=True, slots=True)
class _Converted:
    """Values of a column of fragments in another type, including deleted rows, which a file also contains."""

    before: Field
    after: Field

    def __call__(self, fragment: DataFragment, bases: Bases) -> NewColumns | None:
        holders = [file for file in fragment.files if any(node.id in file.columns() for node in self.before.walk())]
        if not holders:
            return None  # It is null in all rows.
        if any(file.version is FileVersion.V2_0 for file in holders) and _is_in_list(self.before):
            raise UnsupportedFeatureError(
                f"items of {self.before.name!r} lie in files of version 2.0, beside which they cannot have "
                "another type; compact the table first",
                feature="items of lists in another file",
                version=FileVersion.V2_0.value,
            )
        return NewColumns(LanceSchema((self.after,), {}), self._batches(FragmentReader(fragment, bases)))

    def _batches(self, reader: FragmentReader) -> Iterator[PlacedBatch]:
        schema = pa.schema([to_arrow_field(self.after)])
        for placed in physical_batches(reader, [self.before]):
            column = _cast(placed.batch.column(0), schema.field(0))
            yield PlacedBatch(placed.offsets, pa.RecordBatch.from_arrays([column], schema=schema))


def _is_in_list(field: Field) -> bool:
    return any(node.children and node.logical_type != "struct" for node in field.walk())


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"a value of {field.name!r} does not fit into {field.type}: {error}") from error
