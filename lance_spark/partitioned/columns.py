"""Changing the columns of a partitioned table: the namespace's `schema` and all partitions, in one version.

The namespace's `schema` is the truth, and columns belong together by field id. An id is never assigned twice, so a data
file of any partition means the same for ever; the namespace remembers the largest one.

A column that partition values come from can be renamed, and it can be dropped: from then on it counts as NULL, as the
partitioning specification demands, so new and changed rows go to the partition of that value; those that are there
stay. Its type cannot be changed: that would give it another id.

CHECK constraints are in the schema of the namespace too, for the rows of all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock

import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidInputError, RetryableConflictError
from lance_spark.expr.values import no_rows
from lance_spark.file.writable import require_writable
from lance_spark.partitioned.change import Step
from lance_spark.partitioned.commit import commit_specs, with_operation_name
from lance_spark.partitioned.names import MAX_FIELD_ID
from lance_spark.partitioned.spec import PartitionSpecs
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.partitioned.writer import partition_schema
from lance_spark.schema import evolution
from lance_spark.schema.arrow import to_arrow_schema, to_arrow_type, with_metadata
from lance_spark.schema.constraints import with_check
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.table.columns.add_columns import AddedColumns, ColumnsToAdd
from lance_spark.table.columns.alter_column import Alteration, conversion, converted_schema
from lance_spark.table.columns.check_constraints import check_rows, name_of_check, schema_with_check
from lance_spark.table.columns.column_commit import Evolution, commit_evolution
from lance_spark.table.columns.new_columns import BatchFunction, arrow_fields
from lance_spark.table.columns.placeholder_columns import PlaceholderColumns
from lance_spark.table.columns.schema_changes import Change, check_nulls, forbids_more_nulls
from lance_spark.table.commits.field_ids import largest_field_id
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.update_map import UpdateMap
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID
from lance_spark.table.writing.checks import require_columns_of_checks
from lance_spark.table.writing.conform import same_columns
from lance_spark.table.writing.save import CommitOptions


def add_columns(
    table: PartitionedTable, columns: pa.Schema | Sequence[pa.Field], options: CommitOptions | None = None
) -> PartitionedTable:
    """The version with new columns, which are null in all rows; dotted names are fields of structs.

    Raises:
        InvalidInputError: a column is there, must not be null, or is of a type that Lance does not have.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    fields = pa.schema(list(columns))
    for field in fields:
        if not field.nullable:
            raise InvalidInputError(f"column {field.name!r} would be null, which it does not allow")

    def attempt(current: PartitionedTable) -> PartitionedTable:
        dotted = any("." in field.name for field in fields)
        new = arrow_fields(current.lance_schema, {field.name: field for field in fields}) if dotted else fields
        schema = evolution.with_added(current.lance_schema, new, next_field_id(current)).schema
        require_writable(schema, current.file_version)
        return _commit(current, schema, options)

    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


def add_computed_columns(
    table: PartitionedTable, columns: ColumnsToAdd, options: CommitOptions | None = None
) -> PartitionedTable:
    """The version with new columns that have values, as `ColumnVerbs.add_columns` describes them.

    Each partition's table gets a version with files for all of its rows. Partitions that other writers change meanwhile
    are computed again.

    Raises:
        NotFoundError: a column to read does not exist.
        InvalidInputError: a column is there already, values cannot be computed, or keys are places of rows.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    places = [name for name in columns.keys if name in (ROW_ADDRESS, ROW_ID)]
    if places:
        raise InvalidInputError(
            f"{places[0]} identifies rows of one partition only, and {table.root} is a partitioned table; join by a "
            "column of the table"
        )
    if callable(columns.columns):
        columns = replace(columns, columns=_by_one_thread(columns.columns))
    table.catalog.table.history.check_commits()

    def attempt(current: PartitionedTable) -> PartitionedTable:
        schema = current.lance_schema
        source = columns.source(
            to_arrow_schema(with_blob_descriptors(schema, current.file_version)),
            schema.names(),
            lambda names: _read(current, names, columns.batch_size),
        )
        added = AddedColumns.of(schema, source, next_field_id(current), columns.batch_size)
        require_writable(added.schema, current.file_version)
        before = follower(schema, options)

        def step(location: TableLocation, manifest: Manifest) -> Manifest:
            manifest = before(location, manifest)
            evolution = replace(added.evolution(manifest), schema=partition_schema(added.schema))
            return commit_evolution(location, manifest, evolution, options)

        return commit_specs(
            current,
            _with_schema(current, added.schema),
            with_operation_name(options, "columns"),
            step=step,
            properties=noted_ids(current, added.schema),
        )

    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


def _by_one_thread(function: BatchFunction) -> BatchFunction:
    """Partitions are computed by several threads; functions of users need not know that."""
    lock = Lock()

    def locked(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return function(batch)

    return locked


def _read(table: PartitionedTable, columns: Sequence[str], batch_size: int | None) -> Iterator[pa.RecordBatch]:
    schema, batches = table.stored_rows(columns, batch_size=batch_size)
    yield from batches
    yield no_rows(schema)


def alter_column(table: PartitionedTable, change: Alteration, options: CommitOptions | None = None) -> PartitionedTable:
    """The version with a column changed; `table` if nothing changes.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: the name is taken, the type does not hold all values or the column is one that partition
            values come from, or there are nulls in a column that is to forbid them. Nothing was changed.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    field = evolution.field_at(table.lance_schema, change.path)
    dtype = change.data_type
    if dtype is None or to_arrow_type(field) == dtype:
        return change_columns(table, change.of_schema, options)
    table.catalog.table.history.check_commits()

    def attempt(current: PartitionedTable) -> PartitionedTable:
        return _widened(current, change, dtype, options)

    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


def edit_columns(
    table: PartitionedTable, edit: Callable[[LanceSchema, FieldId], LanceSchema], options: CommitOptions | None = None
) -> PartitionedTable:
    """The version with the columns that `edit` makes of those that are there and the first id that is free.

    Fields that it adds are null in all rows. Raises as the others.
    """

    def attempt(current: PartitionedTable) -> PartitionedTable:
        schema = edit(current.lance_schema, next_field_id(current))
        if schema == current.lance_schema:
            return current
        require_writable(schema, current.file_version)
        return _commit(current, schema, options)

    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


def update_field_metadata(
    table: PartitionedTable,
    entries: Mapping[str, Mapping[str, str | None]],
    options: CommitOptions | None = None,
    *,
    replace: bool = False,
) -> PartitionedTable:
    """The version with entries of the metadata of columns changed; arguments as `ColumnVerbs.update_field_metadata`."""

    def changed(schema: LanceSchema) -> LanceSchema:
        for path, values in entries.items():
            update = UpdateMap(values, replace)
            schema = evolution.replaced(
                schema,
                path,
                lambda old, update=update: with_metadata(old, update.applied_to_bytes(old.metadata)),  # type: ignore[misc]
            )
        return schema

    return change_columns(table, changed, options)


def next_field_id(table: PartitionedTable) -> FieldId:
    """An id that no field of the table ever had; nor any after it.

    Raises:
        CorruptFileError: the namespace's note of the largest id is no number.
    """
    noted = table.properties.get(MAX_FIELD_ID, "-1")
    if not noted.removeprefix("-").isdecimal() or len(noted) > 9:
        raise CorruptFileError(f"{MAX_FIELD_ID} in the metadata of __manifest is {noted!r}, which is not a field id")
    with_operation_name = [source for field in table.specs.fields_of_all() for source in field.source_ids]
    in_partitions = [largest_field_id(opened.manifest) for opened in table.open_all(table.index.partitions)]
    return FieldId(max([int(noted), table.lance_schema.max_field_id, *with_operation_name, *in_partitions]) + 1)


def change_columns(table: PartitionedTable, change: Change, options: CommitOptions | None = None) -> PartitionedTable:
    """The version with `change` applied to the columns; `table` if that changes nothing. Raises as `add_columns`."""

    def attempt(current: PartitionedTable) -> PartitionedTable:
        schema = change(current.lance_schema)
        return current if schema == current.lance_schema else _commit(current, schema, options)

    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


def _commit(table: PartitionedTable, schema: LanceSchema, options: CommitOptions | None) -> PartitionedTable:
    require_columns_of_checks(schema)
    # What data files mean does not depend on comments, so partitions can do without.
    step = None if same_columns(table.lance_schema, schema) else follower(schema, options)
    options = with_operation_name(options, "columns")
    return commit_specs(table, _with_schema(table, schema), options, step=step, properties=noted_ids(table, schema))


def _widened(
    table: PartitionedTable, change: Alteration, dtype: pa.DataType, options: CommitOptions | None
) -> PartitionedTable:
    old = evolution.field_at(table.lance_schema, change.path)
    ids = {node.id for node in old.walk()}
    for field in table.specs.fields_of_all():
        if not ids.isdisjoint(field.source_ids):
            raise InvalidInputError(
                f"the type of {change.path!r} cannot change, because the partition field {field.field_id!r} comes from "
                "it; add a column of the other type"
            )
    new_id = next_field_id(table)
    schema = converted_schema(table.lance_schema, change, dtype, new_id)
    require_writable(schema, table.file_version)
    require_columns_of_checks(schema)
    before = follower(table.lance_schema, options)

    def step(table: TableLocation, manifest: Manifest) -> Manifest:
        manifest = before(table, manifest)
        evolution = conversion(table, manifest, change, dtype, new_id)
        return commit_evolution(table, manifest, replace(evolution, schema=partition_schema(schema)), options)

    properties = noted_ids(table, schema)
    options = with_operation_name(options, "columns")
    return commit_specs(table, _with_schema(table, schema), options, step=step, properties=properties)


def follower(schema: LanceSchema, options: CommitOptions | None = None) -> Step:
    """Returns a step that gives a partition's table the columns `schema` of the namespace.

    The step raises `InvalidInputError` for a null where the column forbids it.
    """
    target = partition_schema(schema)

    def step(table: TableLocation, manifest: Manifest) -> Manifest:
        if same_columns(manifest.schema, target):
            return manifest
        check_nulls(table, manifest, target)
        preserves = not forbids_more_nulls(manifest.schema, target)
        shares_column = bool({field.id for field in manifest.schema.fields} & {field.id for field in target.fields})
        placeholders = PlaceholderColumns(manifest.schema, target)
        needed = shares_column and any(placeholders.columns_of(message) for message in manifest.fragments.messages)
        evolution = Evolution(target, placeholders if needed else None, preserves_nullability=preserves)
        return commit_evolution(table, manifest, evolution, options)

    return step


def _with_schema(table: PartitionedTable, schema: LanceSchema) -> PartitionSpecs:
    return replace(table.specs, schema=schema)


def noted_ids(table: PartitionedTable, schema: LanceSchema) -> dict[str, str | None]:
    """The property with the largest id; dropping a column must not make its id free."""
    return {MAX_FIELD_ID: str(max(next_field_id(table) - 1, schema.max_field_id))}


def add_check(
    table: PartitionedTable, name: str, condition: str, options: CommitOptions | None = None
) -> PartitionedTable:
    """The version with the CHECK constraint `name`. Arguments and errors as `table.columns.add_check`."""
    options = with_operation_name(options, "columns")

    def attempt(current: PartitionedTable) -> PartitionedTable:
        schema = schema_with_check(current.lance_schema, name, condition)
        check_rows(schema, name, lambda columns: current.stored_rows(columns)[1])

        def unchanged(newer: PartitionedTable) -> None:
            if newer.rows != current.rows:
                raise RetryableConflictError(
                    f"another writer has changed rows of {current.root}, which the CHECK constraint {name!r} was not "
                    "checked for. Run the statement again",
                    table_version=newer.version,
                )

        return commit_specs(current, replace(current.specs, schema=schema), options, check=unchanged)

    return retry_on_conflict(attempt, table, table.newest, options.policy)


def drop_check(table: PartitionedTable, name: str, options: CommitOptions | None = None) -> PartitionedTable:
    """The version without the CHECK constraint `name`. Errors as `table.columns.drop_check`."""
    options = with_operation_name(options, "columns")

    def attempt(current: PartitionedTable) -> PartitionedTable:
        schema = with_check(current.lance_schema, name_of_check(current.lance_schema, name), None)
        return commit_specs(current, replace(current.specs, schema=schema), options)

    return retry_on_conflict(attempt, table, table.newest, options.policy)
