"""Creating a partitioned table, and changing its rows: each call makes one version of the table, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    IncompatibleConflictError,
    InvalidInputError,
)
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.file_version import FileVersion
from lance_spark.namespace.catalog_table import CATALOG_SCHEMA, CatalogTable, CatalogVersion
from lance_spark.partitioned.change import AppendRows, ChangeRows, DropPartition, PartitionChange, ReplaceRows
from lance_spark.partitioned.commit import Check, commit_changes, with_operation_name
from lance_spark.partitioned.field import PartitionField, partition_field
from lance_spark.partitioned.maintenance.compaction import compact_after
from lance_spark.partitioned.manifest_index import READ_FIELDS, PartitionKey
from lance_spark.partitioned.spec import PartitionSpec, PartitionSpecs, is_partitioned
from lance_spark.partitioned.table import FILE_VERSION, PartitionedTable, PartitionVersion, identity_columns
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.writer import PartitionedWrite, PartitionWriter, WrittenPartition
from lance_spark.progress import progress
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.blob import as_blob_v2
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.paths import UriOrPath, absolute_uri, uri_text
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.row_level.delete import split_scan
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.row_level.row_changes import DeletedRows, rows_by_fragment
from lance_spark.table.row_level.written_rows import require_same_columns
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.versions.changes import update_metadata
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions
from lance_spark.table.writing.write import FileLimits, num_rows_of
from lance_spark.table.writing.write_verbs import RowsToWrite


class SaveMode(str, Enum):
    """Treatment of the existing rows."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    """They are deleted, in all partitions."""
    DYNAMIC_OVERWRITE = "dynamic overwrite"
    """They are deleted in the partitions that get new ones."""


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """A field of a new partition spec.

    Attributes:
        field_id: its name for ever.
        sources: the source columns, by name.
        transform: how the value follows from them; or
        expression: an expression in DataFusion's SQL on `col0`, `col1`... in the order of `sources`.
    """

    field_id: str
    sources: tuple[str | tuple[str, ...], ...]
    transform: Transform | None = None
    expression: str | None = None

    def field(self, schema: LanceSchema) -> PartitionField:
        """The field, of columns of `schema`. Raises as `partition_field`."""
        return partition_field(self.field_id, schema, self.sources, self.transform, self.expression)


def create_partitioned(
    root: UriOrPath,
    schema: pa.Schema,
    partition_by: Sequence[PartitionBy],
    *,
    storage_options: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> PartitionedTable:
    """A new partitioned table without rows at `root`, of which nothing else may be a part.

    Args:
        properties: of the namespace; `table` has the ones with a meaning.

    Raises:
        AlreadyExistsError: there is a table, or a catalog with tables.
        InvalidInputError: a column or a field is invalid.
    """
    root = absolute_uri(uri_text(root))
    lance_schema = from_arrow_schema(schema)
    if FileVersion.parse((properties or {}).get(FILE_VERSION, DEFAULT_FILE_VERSION.value)) is FileVersion.V2_2:
        lance_schema = as_blob_v2(lance_schema)
    fields = [item.field(lance_schema) for item in partition_by]
    specs = PartitionSpecs(lance_schema, (PartitionSpec(1, tuple(fields)),))
    specs.check()
    catalog = CatalogTable(root, storage_options)
    metadata = {**(properties or {}), **specs.to_metadata()}
    found = catalog.load()
    if found.dataset is None:
        empty = pa.schema([*CATALOG_SCHEMA, *READ_FIELDS, *specs.partition_columns()]).empty_table()
        # Another writer may be first; whether that was for the same table is looked at below.
        with suppress(CommitConflictError):
            manifest = catalog.replace_rows(CatalogVersion(), empty, changed_properties=metadata)
            return PartitionedTable(root, storage_options, catalog, catalog.at(manifest))
        found = catalog.load()
    assert found.dataset is not None  # It was there, or another writer has made it.
    names = found.dataset.stored_schema.names
    if is_partitioned(found.properties) or found.dataset.count_rows():
        raise AlreadyExistsError(f"there is a table or a catalog of tables at {root} already")
    if not {field.name for field in specs.partition_columns()} <= set(names):
        raise AlreadyExistsError(f"there is a catalog at {root} already")
    try:
        manifest = update_metadata(catalog.table, found.dataset.manifest, metadata)
    except CommitConflictError as error:
        raise AlreadyExistsError(f"another writer has created a table at {root}") from error
    return PartitionedTable(root, storage_options, catalog, catalog.at(manifest))


def save_rows(
    table: PartitionedTable,
    data: object,
    mode: SaveMode = SaveMode.APPEND,
    *,
    limits: FileLimits | None = None,
    options: CommitOptions | None = None,
) -> PartitionedTable:
    """The version with the rows of `data` too, or instead of others.

    Raises:
        InvalidInputError: the rows do not fit the table. Nothing was changed.
        CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    rows = RowsToWrite(RowSource.of(data), limits or FileLimits(), options or CommitOptions())
    plan, added, options = _write(table, rows)
    return commit_delta(table, plan, RowDelta.of_write(table, added, mode), options)


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Deleted and added rows, for `commit_delta`.

    Attributes:
        deleted: by object id of the partition, the addresses of its deleted rows.
        added: what tasks have written.
        dropped_partitions: object ids of partitions that are removed without reading their rows.
        mode: what an overwrite replaces; APPEND for all other changes.
    """

    deleted: Mapping[str, UInt64Array]
    added: Sequence[WrittenPartition] = ()
    dropped_partitions: Sequence[str] = ()
    mode: SaveMode = SaveMode.APPEND

    @classmethod
    def of_write(cls, table: PartitionedTable, added: Sequence[WrittenPartition], mode: SaveMode) -> RowDelta:
        """The change of `table` by a write."""
        written = {item.partition.key for item in added}
        dropped = [
            partition.object_id
            for partition in (() if mode is SaveMode.APPEND else table.index.partitions)
            if mode is SaveMode.OVERWRITE or partition.key in written
        ]
        return cls({}, added, dropped, mode)

    @property
    def operation(self) -> str:
        """The operation in the table's history: "delete", "update", "append" or "overwrite"."""
        if self.mode is not SaveMode.APPEND:
            return "overwrite"
        if not self.added:
            return "delete"
        return "update" if self.dropped_partitions or any(map(len, self.deleted.values())) else "append"


def commit_delta(
    table: PartitionedTable,
    plan: PartitionedWrite | None,
    delta: RowDelta,
    options: CommitOptions | None = None,
    *,
    check: Check | None = None,
) -> PartitionedTable:
    """The version of `table` without some rows and with others; `table` if there are neither.

    Args:
        plan: what the rows were written by.
        check: asked for each newer version that the commit has to follow.

    Raises:
        RetryableConflictError: another writer has touched one of the rows: find them again in the newest version.
        CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    changes, options = changes_from_delta(table, delta), with_operation_name(options, delta.operation)
    with nullcontext() if plan is None else cleanup_on_failure(lambda: plan.remove_files(delta.added)):
        made = commit_changes(table, changes, options, check=check)
    compact_after(made, [change.partition.key for change in changes])
    return made


def changes_from_delta(table: PartitionedTable, delta: RowDelta) -> list[PartitionChange]:
    """Changes of the partitions of `table` that make up `delta`."""
    by_id = table.index.by_id
    new: dict[PartitionKey, tuple[NewFragment, ...]] = {}
    partitions = {item.partition.key: item.partition for item in delta.added}
    for item in delta.added:
        new[item.partition.key] = new.get(item.partition.key, ()) + item.new
    deleted: dict[PartitionKey, DeletedRows] = {}
    for object_id, addresses in delta.deleted.items():
        if object_id not in by_id:
            raise InvalidInputError(f"{table!r} has no partition {object_id!r} to delete rows from")
        if len(addresses):
            partitions[by_id[object_id].key] = by_id[object_id]
            deleted[by_id[object_id].key] = rows_by_fragment(addresses)
    known = [partition for key, partition in partitions.items() if table.index.find(key) is not None]
    bases = {opened.partition.key: opened.manifest for opened in table.open_all(known)}
    dropped_partitions = [by_id[object_id] for object_id in delta.dropped_partitions]
    emptied = table.open_all([partition for partition in dropped_partitions if partition.key not in new])
    changes: list[PartitionChange] = [DropPartition(opened.partition, opened.manifest) for opened in emptied]
    for partition in dropped_partitions:
        if partition.key in new:
            changes.append(ReplaceRows(partition, bases[partition.key], new[partition.key]))
            del partitions[partition.key]
    for key, partition in partitions.items():
        if key in deleted:
            changes.append(ChangeRows(partition, bases[key], deleted[key], new.get(key, ())))
        else:
            # A partition that another writer creates meanwhile gets appended rows too; an overwrite is computed again.
            kind = AppendRows if delta.mode is SaveMode.APPEND else ReplaceRows
            changes.append(kind(partition, bases.get(key), new[key]))
    return changes


def delete_rows(
    table: PartitionedTable,
    filter: Expr | str,
    options: CommitOptions | None = None,
    *,
    check: Callable[[PartitionedTable], Check | None] | None = None,
) -> PartitionedTable:
    """The version without the rows for which `filter` is true; `table` if there are none. Raises as `save_rows`.

    Partitions all of whose rows match for certain are dropped without reading their files.

    Args:
        check: the check of a run of the deletion on a version, asked for each newer version that it has to follow.
    """
    condition = condition_of(filter, to_match_all="give 'true'")
    table.catalog.table.history.check_commits()

    def attempt(current: PartitionedTable) -> PartitionedTable:
        delta = matching_rows(current, condition)
        return commit_delta(current, None, delta, options, check=None if check is None else check(current))

    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


def matching_rows(table: PartitionedTable, filter: Expr, known: Mapping[str, UInt64Array] | None = None) -> RowDelta:
    """The rows for which `filter` is true, as deleted rows.

    Args:
        known: by object id of the partition, their addresses in `partitions_to_search`, if those were looked through.
    """
    covered = sorted(partition.object_id for partition in table.covered_partitions(filter))
    if known is not None:
        return RowDelta(known, (), covered)
    deleted = {
        opened.partition.object_id: np.concatenate([np.empty(0, np.uint64), *_addresses(table, opened, filter)])
        for opened in partitions_to_search(table, filter)
    }
    return RowDelta(deleted, (), covered)


def partitions_to_search(table: PartitionedTable, filter: Expr) -> list[PartitionVersion]:
    """The partitions some of whose rows may match `filter`, and not all of them for certain."""
    covered = {partition.object_id for partition in table.covered_partitions(filter)}
    return table.open_all([item for item in table.partitions(filter) if item.object_id not in covered])


def replace_where(table: PartitionedTable, rows: RowsToWrite, condition: Expr) -> PartitionedTable:
    """The version with `rows` instead of those for which `condition` is true. Raises as `WriteVerbs.replace_where`.

    After a conflict the rows are searched again in the newest version, and the written files stay as they are.
    """
    plan, added, options = _write(table, rows.where(condition, table.stored_schema))
    options = with_operation_name(options, "overwrite")

    def attempt(current: PartitionedTable) -> PartitionedTable:
        delta = replace(matching_rows(current, condition), added=in_current_partitions(current, table, added))
        return commit_delta(current, None, delta, options)

    with cleanup_on_failure(lambda: plan.remove_files(added)):
        if options.identity is not None:
            return attempt(table)  # After a conflict the new rows would need other values.
        return retry_on_conflict(attempt, table, table.newest, options.policy)


def in_current_partitions(
    current: PartitionedTable, written: PartitionedTable, added: Sequence[WrittenPartition]
) -> list[WrittenPartition]:
    """`added`, which was written for the version `written`, with the partitions of `current`.

    Raises:
        IncompatibleConflictError: the files do not fit: `current` has other columns or CHECK constraints, or a
            partition is elsewhere.
    """
    require_same_columns(current.lance_schema, written.lance_schema, written.root, current.version)
    if current.specs.specs != written.specs.specs:
        raise IncompatibleConflictError(
            f"another writer has changed the partitioning of {written.root}. Run the operation again",
            own="replace_where",
            table_version=current.version,
        )
    partitions = [current.index.find(item.partition.key) for item in added]
    for item, now in zip(added, partitions, strict=True):
        before = written.index.find(item.partition.key)
        if (before and before.location) != (now and now.location):
            raise IncompatibleConflictError(
                f"another writer has created, replaced or removed the partition {item.partition.object_id} of "
                f"{written.root}, which gets new rows. Run the operation again",
                own="replace_where",
                table_version=current.version,
            )
    return [replace(item, partition=now or item.partition) for item, now in zip(added, partitions, strict=True)]


def _write(
    table: PartitionedTable, rows: RowsToWrite
) -> tuple[PartitionedWrite, list[WrittenPartition], CommitOptions]:
    identity = identity_columns(table).values()
    rows = rows.with_values(identity)
    check_zone_columns(table.lance_schema, rows.options.zone_maps)
    plan = PartitionedWrite.of(table, rows.source.schema, rows.limits)
    with PartitionWriter(plan) as writer, progress("Writing") as bar:
        for batch in bar.track(rows.source.batches, size=num_rows_of):
            writer.write(batch)
        return plan, writer.close(), replace(rows.options, identity=identity.mark())


def _addresses(table: PartitionedTable, opened: PartitionVersion, condition: Expr) -> list[UInt64Array]:
    scan = Candidates.of(split_scan(table.lance_schema, opened, condition), opened.manifest, checks_exact=True)
    return [batch.column(0).to_numpy() for batch in scan.read(opened.manifest.fragments)]
