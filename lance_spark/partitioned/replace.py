"""Writes that change columns or partitioning in the same version of the table.

Data files are written by the columns and specs that the table is to get, which travel with the plan of the write. Added
rows, beside others or in place of some, add columns, which all partitions get; a replacement deletes all rows and keeps
the ids of columns whose name and type stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import RetryableConflictError
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.partitioned.change import AppendRows, ChangeRows, PartitionChange, Step
from lance_spark.partitioned.columns import follower, next_field_id, noted_ids
from lance_spark.partitioned.commit import Check, commit_specs, with_operation_name
from lance_spark.partitioned.field import PartitionField
from lance_spark.partitioned.maintenance.compaction import compact_after
from lance_spark.partitioned.row_delta import RowDelta, changes_from_delta
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.spec import PartitionSpecs
from lance_spark.partitioned.table import PartitionedTable, PlannedTable
from lance_spark.schema.arrow import from_arrow_field, from_arrow_schema, to_arrow_field, with_metadata
from lance_spark.schema.blob import in_file_version
from lance_spark.schema.constraints import CHECK_PREFIX, checks_of, without_checks
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.schema_merge import columns_lacking


def with_columns_of(table: PartitionedTable, source: pa.Schema) -> PartitionedTable:
    """`table` as it is to be with columns that only `source` has, members of structs too; `table` if there are none.

    Raises:
        InvalidInputError: a type that Lance cannot hold.
    """
    lacking = columns_lacking(table.lance_schema, source)
    if not len(lacking):
        return table
    return planned_with(table, with_added(table.lance_schema, lacking, next_field_id(table)).schema)


def planned_with(table: PartitionedTable, schema: LanceSchema) -> PlannedTable:
    """`table` as it is to be with the columns `schema`.

    Raises:
        UnsupportedFeatureError: its files cannot hold such columns.
    """
    require_writable(schema, table.file_version)
    return PlannedTable(table, replace(table.specs, schema=schema))


def replaced(table: PartitionedTable, columns: pa.Schema, partition_by: Sequence[PartitionBy]) -> PartitionedTable:
    """`table` as it is to be with these columns and this partitioning instead of its own; `table` if it has them.

    Raises:
        InvalidInputError: a column or a field is invalid.
    """
    schema = _schema(table, columns)
    require_writable(schema, table.file_version)
    specs = PartitionSpecs(schema, table.specs.specs)
    fields: list[PartitionField] = []
    for item in partition_by:
        new = item.field(schema)
        taken = {field.field_id for field in (*specs.fields_of_all(), *fields)}
        fields.append(specs.existing_field(new) or replace(new, field_id=_free(new.field_id, taken)))
    if tuple(fields) != specs.current.fields:
        specs = specs.with_spec(fields)
    return table if specs == table.specs else PlannedTable(table, specs)


def commit_planned(
    table: PlannedTable,
    delta: RowDelta,
    options: CommitOptions | None = None,
    *,
    properties: Mapping[str, str | None] | None = None,
    check: Check | None = None,
) -> PartitionedTable:
    """Commits deleted and added rows with the columns and specs of `table`, which all partitions get.

    After an error the files of the rows stay.

    Args:
        properties: of the namespace, which change too.
        check: asked for each newer version that the commit has to follow, unless all other rows are deleted.

    Raises:
        RetryableConflictError: another writer has changed columns, specs or the same partitions, or anything if all
            rows are deleted. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    options = with_operation_name(options, delta.operation)
    changes = changes_from_delta(table, delta)
    if delta.mode not in (WriteMode.OVERWRITE, WriteMode.TRUNCATE):
        committed = _commit_evolved(table, changes, options, properties, check)
        compact_after(committed, [change.partition.key for change in changes])
        return committed
    changed = {**noted_ids(table.base, table.lance_schema), **(properties or {})}
    return commit_specs(table.base, table.specs, options, properties=changed, changes=changes, check=_refuse)


def _commit_evolved(
    table: PlannedTable,
    changes: Sequence[PartitionChange],
    options: CommitOptions,
    properties: Mapping[str, str | None] | None = None,
    check: Check | None = None,
) -> PartitionedTable:
    step = follower(table.lance_schema, replace(options, mark=None, identity=None))
    evolved = [
        _Evolved(item.partition, item.base, item, step) if isinstance(item, (AppendRows, ChangeRows)) else item
        for item in changes
    ]
    properties = {**noted_ids(table.base, table.lance_schema), **(properties or {})}
    return commit_specs(
        table.base, table.specs, options, step=step, properties=properties, changes=evolved, check=check
    )


def _refuse(current: PartitionedTable) -> None:
    raise RetryableConflictError(
        f"another writer has changed {current.root}, which is to be replaced by a table of other columns or "
        "partitions. Run the operation again",
        table_version=current.version,
    )


@dataclass(frozen=True, slots=True)
class _Evolved(PartitionChange):
    """Rows of a partition that gets its new columns first."""

    rows: AppendRows | ChangeRows
    step: Step

    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        if self.base is None:
            return self.rows.commit(table, location, options)
        newest = location.history.load_latest().manifest
        if isinstance(self.rows, ChangeRows) and newest.version != self.base.version:
            # Where the rows were is known in that version only.
            raise RetryableConflictError(
                f"another writer has changed the partition {self.partition.object_id}, which gets columns and other "
                "rows. Read the table and run the operation again",
                table_version=newest.version,
            )
        return replace(self.rows, base=self.step(location, self.base)).commit(table, location, options)


def _schema(table: PartitionedTable, columns: pa.Schema) -> LanceSchema:
    """The columns, those of known name and type with the ids that they have."""
    existing = {field.name: field for field in table.lance_schema.fields}
    unchanged = {column.name: existing[column.name] for column in columns if _is_same(existing, column)}
    new = pa.schema([column for column in columns if column.name not in unchanged])
    # Constraints are those of the new columns.
    checks = checks_of(from_arrow_schema(columns))
    metadata = dict(without_checks(table.lance_schema).metadata)
    metadata |= {CHECK_PREFIX + name: condition.encode() for name, condition in checks.items()}
    added = in_file_version(from_arrow_schema(new, first_id=next_field_id(table)), table.file_version)
    fields = unchanged | {field.name: field for field in added.fields}
    version = table.file_version
    return LanceSchema(tuple(_with_metadata_of(fields[column.name], column, version) for column in columns), metadata)


def _is_same(existing: Mapping[str, Field], column: pa.Field) -> bool:
    return column.name in existing and to_arrow_field(existing[column.name]).equals(column)


def _with_metadata_of(field: Field, column: pa.Field, version: FileVersion) -> Field:
    """`field` with the metadata that `column` has in files of a version."""
    converted = in_file_version(LanceSchema((from_arrow_field(column, first_id=field.id),)), version)
    metadata = converted.fields[0].metadata
    return field if field.metadata == metadata else with_metadata(field, metadata)


def _free(field_id: str, taken: set[str]) -> str:
    number, name = 1, field_id
    while name in taken:
        number += 1
        name = f"{field_id}_{number}"
    return name
