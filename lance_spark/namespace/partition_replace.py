"""Rows that come with other columns or another partitioning: both are there with the same version of the whole.

Data files are written by the columns and specs that the table is to get, which travel with the plan of the write. An
append adds columns, and all partitions follow; a replacement lets all rows go, and keeps the ids of columns whose name
and type stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import RetryableConflictError
from lance_spark.file.writable import require_writable
from lance_spark.namespace.partition_change import AppendRows, PartitionChange, Step
from lance_spark.namespace.partition_columns import follower, next_field_id, noted_ids
from lance_spark.namespace.partition_commit import commit_specs, named
from lance_spark.namespace.partition_field import PartitionField
from lance_spark.namespace.partition_save import PartitionBy, SaveMode, changes_of, kept_if_committed
from lance_spark.namespace.partition_spec import PartitionSpecs
from lance_spark.namespace.partition_writer import PartitionedWrite, WrittenPartition
from lance_spark.namespace.partitioned_table import PartitionedTable, PlannedTable
from lance_spark.schema.arrow import from_arrow_field, to_arrow_field, with_metadata
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.table.location import TableLocation
from lance_spark.table.manifest import Manifest
from lance_spark.table.writing.evolving_append import columns_lacking
from lance_spark.table.writing.save import CommitOptions


def with_columns_of(table: PartitionedTable, source: pa.Schema) -> PartitionedTable:
    """`table` as it is to be with columns that only `source` has, members of structs too; `table` if there are none.

    Raises:
        InvalidInputError: a type that Lance cannot hold.
    """
    lacking = columns_lacking(table.lance_schema, source)
    if not len(lacking):
        return table
    schema = with_added(table.lance_schema, lacking, next_field_id(table)).schema
    require_writable(schema, table.file_version)
    return PlannedTable(table, replace(table.specs, schema=schema))


def replaced(table: PartitionedTable, columns: pa.Schema, partition_by: Sequence[PartitionBy]) -> PartitionedTable:
    """`table` as it is to be with these columns and this partitioning instead of its own; `table` if it has them.

    Raises:
        InvalidInputError: a column or a field makes no sense.
    """
    schema = _schema(table, columns)
    require_writable(schema, table.file_version)
    specs = PartitionSpecs(schema, table.specs.specs)
    fields: list[PartitionField] = []
    for item in partition_by:
        made = item.field(schema)
        taken = {field.field_id for field in (*specs.fields_of_all(), *fields)}
        fields.append(specs.existing_field(made) or replace(made, field_id=_free(made.field_id, taken)))
    if tuple(fields) != specs.current.fields:
        specs = specs.with_spec(fields)
    return table if specs == table.specs else PlannedTable(table, specs)


def commit_planned(
    table: PlannedTable,
    plan: PartitionedWrite,
    written: Sequence[WrittenPartition],
    mode: SaveMode,
    options: CommitOptions | None = None,
    *,
    properties: Mapping[str, str | None] | None = None,
) -> PartitionedTable:
    """Commits what the tasks of `plan` have written, with the columns and specs of `table`.

    Args:
        mode: APPEND adds columns that all partitions get; with OVERWRITE all other rows go.
        properties: of the namespace, which change too.

    Raises:
        RetryableConflictError: another writer has changed columns, specs or the same partitions, or anything if rows
            go. Nothing was changed, and the files are gone.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    appends = mode is SaveMode.APPEND
    told = named(options, "append" if appends else "overwrite")
    step = follower(table.lance_schema, told) if appends else None
    changes: list[PartitionChange] = changes_of(table, written, mode)
    if step is not None:
        changes = [_Evolved(item.partition, item.base, item, step) for item in changes if isinstance(item, AppendRows)]
    with kept_if_committed(plan, written):
        return commit_specs(
            table.base,
            table.specs,
            told,
            step=step,
            properties={**noted_ids(table.base, table.lance_schema), **(properties or {})},
            changes=changes,
            check=None if appends else _refuse,
        )


def _refuse(current: PartitionedTable) -> None:
    raise RetryableConflictError(
        f"another writer has changed {current.root}, which is to be replaced by a table of other columns or "
        "partitions. Run the operation again",
        table_version=current.version,
    )


@dataclass(frozen=True, slots=True)
class _Evolved(PartitionChange):
    """Rows for a partition that gets its new columns first."""

    rows: AppendRows
    step: Step

    def commit(self, whole: PartitionedTable, table: TableLocation, options: CommitOptions) -> Manifest:
        if self.base is None:
            return self.rows.commit(whole, table, options)
        return replace(self.rows, base=self.step(table, self.base)).commit(whole, table, options)


def _schema(table: PartitionedTable, columns: pa.Schema) -> LanceSchema:
    """The columns, those of known name and type with the ids that they have."""
    known = {field.name: field for field in table.lance_schema.fields}
    kept = {column.name: known[column.name] for column in columns if _is_same(known, column)}
    new = pa.schema([column for column in columns if column.name not in kept])
    metadata = table.lance_schema.metadata
    added = with_added(LanceSchema((), metadata), new, next_field_id(table)).schema.fields if len(new) else ()
    fields = kept | {field.name: field for field in added}
    return LanceSchema(tuple(_told(fields[column.name], column) for column in columns), metadata)


def _is_same(known: Mapping[str, Field], column: pa.Field) -> bool:
    return column.name in known and to_arrow_field(known[column.name]).equals(column)


def _told(field: Field, column: pa.Field) -> Field:
    """`field` with the metadata that `column` has."""
    metadata = from_arrow_field(column, first_id=field.id).metadata
    return field if field.metadata == metadata else with_metadata(field, metadata)


def _free(field_id: str, taken: set[str]) -> str:
    number, name = 1, field_id
    while name in taken:
        number += 1
        name = f"{field_id}_{number}"
    return name
