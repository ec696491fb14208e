"""Partitioned tables as targets of jobs: a split a partition, one version of `__manifest` a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.namespace.locations import location_uri
from lance_spark.partitioned.commit import with_operation_name
from lance_spark.partitioned.read_conflicts import partition_check_of
from lance_spark.partitioned.replace import commit_planned, with_columns_of
from lance_spark.partitioned.row_changes import PartitionRows
from lance_spark.partitioned.save import (
    RowDelta,
    SaveMode,
    commit_delta,
    in_current_partitions,
    matching_rows,
    partitions_to_search,
)
from lance_spark.partitioned.spec import PartitionSpecs
from lance_spark.partitioned.table import PartitionedTable, PlannedTable, identity_columns, open_partitioned
from lance_spark.partitioned.writer import PartitionedWrite, PartitionWriter, RowOrigins, WrittenPartition
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.blobs.references import BlobInputs
from lance_spark.spark.jobs.original_values import OriginalValues
from lance_spark.spark.jobs.row_change_job import RowChangeJob
from lance_spark.spark.jobs.row_changes import RowIds
from lance_spark.spark.jobs.target import Rows, RowSearch, Target, WriteMode
from lance_spark.spark.jobs.task_result import NewFiles
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.types.schemas import exchanged_schema, table_types, written_schema
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.indexes.auto_zonemap import AUTO_ZONEMAP, check_zone_columns
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN
from lance_spark.table.row_level.upsert import replace_keys
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.save import CommitOptions

_MODES = {
    WriteMode.APPEND: SaveMode.APPEND,
    WriteMode.TRUNCATE: SaveMode.OVERWRITE,
    WriteMode.OVERWRITE: SaveMode.OVERWRITE,
    WriteMode.OVERWRITE_PARTITIONS: SaveMode.DYNAMIC_OVERWRITE,
}


@dataclass(frozen=True)
class PartitionedTarget(Target):
    """A partitioned table; rows go to the partitions of their values.

    Attributes:
        root, storage_options: of the namespace.
        plan: how rows become files; None if none are written.
        specs: the columns and specs that the table is to get with the rows; None if it keeps its own.
        properties: of the namespace, which change with the rows if columns or specs do.
    """

    root: str
    storage_options: Mapping[str, str]
    base_version: int
    job: str | None
    plan: PartitionedWrite | None
    specs: PartitionSpecs | None = None
    properties: Mapping[str, str | None] | None = None
    identity: IdentityColumns = field(default_factory=IdentityColumns)

    @classmethod
    def of(cls, table: PartitionedTable, plan: PartitionedWrite | None) -> PartitionedTarget:
        """The target of a job that builds on `table`, and gives it the columns and specs of a `PlannedTable`."""
        specs = table.specs if isinstance(table, PlannedTable) else None
        job = None if plan is None else plan.job
        options = dict(table.storage_options or {})
        return cls(table.root, options, table.version, job, plan, specs, identity=identity_columns(table))

    def table(self) -> PartitionedTable:
        """The version that the job builds on, with the columns and specs that it is to get."""
        table = open_partitioned(self.root, version=self.base_version, storage_options=self.storage_options)
        return table if self.specs is None else PlannedTable(table, self.specs)

    def write(self, rows: Iterable[Rows], *, with_source_addresses: bool, blobs: BlobInputs) -> tuple[NewFiles, ...]:
        assert self.plan is not None, "rows are written"
        with PartitionWriter(self.plan, blobs.others(self.storage_options)) as writer:
            for batch, ids in rows:
                writer.write(batch, None if ids is None else _row_source_addresses(ids))
            written = writer.close()
        return tuple(
            NewFiles.of(item.new, item.partition, with_source_addresses=with_source_addresses) for item in written
        )

    def opener(self) -> Callable[[str | None], Split]:
        table = self.table()

        def open_split(key: str | None) -> Split:
            assert key is not None, "a partition has a key"
            return table.open(table.index.by_id[key])

        return open_split

    def search(self, filter: Expr) -> RowSearch:
        table = self.table()
        splits = partitions_to_search(table, filter)
        return RowSearch(splits, table.plan(splits[0], [ROW_ADDRESS], filter) if splits else None)

    def save(
        self, mode: WriteMode, files: Sequence[NewFiles], options: CommitOptions, reads: Sequence[ReadRows]
    ) -> PartitionedTable:
        assert self.plan is not None, "rows are written"
        table = self.table()
        return self._commit(table, RowDelta.of_write(table, _written(files), _MODES[mode]), options, reads)

    def replace_rows(
        self,
        filter: Expr,
        files: Sequence[NewFiles],
        options: CommitOptions,
        found: Mapping[str | None, UInt64Array] | None,
    ) -> PartitionedTable:
        table = self.table()
        delta = matching_rows(table, filter, None if found is None else _of_partitions(found))
        return self._commit(table, replace(delta, added=_written(files)), with_operation_name(options, "overwrite"))

    def change_rows(
        self,
        deleted: Mapping[str | None, UInt64Array],
        files: Sequence[NewFiles],
        options: CommitOptions,
        reads: Sequence[ReadRows],
    ) -> PartitionedTable:
        return self._commit(self.table(), RowDelta(_of_partitions(deleted), _written(files)), options, reads)

    def replace_keys(
        self, keys: pa.Table, written_keys: pa.Table, files: Sequence[NewFiles], options: CommitOptions
    ) -> PartitionedTable:
        table, added = self.table(), _written(files)

        def attempt(current: PartitionedTable) -> PartitionedTable:
            new = in_current_partitions(current, table, added)
            return replace_keys(PartitionRows(current, options), keys, new, written_keys)

        return retry_on_conflict(attempt, table, table.newest, options.policy)

    def _commit(
        self, table: PartitionedTable, delta: RowDelta, options: CommitOptions, reads: Sequence[ReadRows] = ()
    ) -> PartitionedTable:
        if isinstance(table, PlannedTable):
            check = partition_check_of(table.base, reads)
            return commit_planned(table, self.plan, delta, options, properties=self.properties, check=check)
        return commit_delta(table, self.plan, delta, options, check=partition_check_of(table, reads))

    def _check_reads(self, reads: Sequence[ReadRows], newest: int) -> None:
        base = open_partitioned(self.root, version=self.base_version, storage_options=self.storage_options)
        check = partition_check_of(base, reads)
        assert check is not None, "there are reads"
        check(open_partitioned(self.root, version=newest, storage_options=self.storage_options))

    def stores(self, files: Sequence[NewFiles]) -> list[ObjectStore]:
        locations = dict.fromkeys(item.partition.location for item in files if item.partition is not None)
        return [open_store(location_uri(self.root, location), self.storage_options) for location in locations]


def plan_partitioned_write(
    table: PartitionedTable,
    columns: StructType,
    mode: WriteMode,
    options: WriteOptions,
    *,
    replaced: Expr | None = None,
    properties: Mapping[str, str | None] | None = None,
) -> WriteJob:
    """The job that writes rows with `columns` into `table`.

    Args:
        replaced: which rows are replaced, with REPLACE_WHERE.
        properties: of the namespace, which change with the rows if columns or partitions do.

    Raises:
        InvalidInputError: the columns do not fit the table.
        UnsupportedFeatureError: this release cannot write such columns, or not with such options.
    """
    _check_as_made(table, options)
    known = to_arrow_schema(table.lance_schema)
    types = table_types(written_schema(columns), known, options.column_properties, large=options.use_large_var_types)
    if options.merge_schema and mode is WriteMode.APPEND:
        table = with_columns_of(table, types)
    given = identity_columns(table).with_columns(types)
    check_zone_columns(table.lance_schema, (properties or {}).get(AUTO_ZONEMAP))
    target = PartitionedTarget.of(table, PartitionedWrite.of(table, given, options.limits(table.properties)))
    options_of_commit = _commit_options(table, options)
    return WriteJob(replace(target, properties=properties), types, options_of_commit, mode, replaced)


def plan_partitioned_changes(table: PartitionedTable, columns: StructType, options: WriteOptions) -> RowChangeJob:
    """The statement that reads `table` and writes rows with `columns`, none if it only deletes.

    A `PlannedTable` gets its columns with the rows.

    Raises:
        InvalidInputError: the columns do not fit the table.
        UnsupportedFeatureError: this release cannot write such columns.
    """
    table.catalog.table.history.check_commits()
    display_name = exchanged_schema(columns)
    types = table_types(display_name, to_arrow_schema(table.lance_schema))
    given = identity_columns(table).with_columns(types)
    plan = PartitionedWrite.of(table, given, options.limits(table.properties)) if columns.fields else None
    commit_options = _commit_options(table, options)
    return RowChangeJob(
        PartitionedTarget.of(table, plan), types, commit_options, OriginalValues.of(display_name, types)
    )


def _commit_options(table: PartitionedTable, options: WriteOptions) -> CommitOptions:
    check_zone_columns(table.lance_schema, options.auto_zonemap)
    return CommitOptions(message=options.commit_message, mark=options.mark(), zone_maps=options.auto_zonemap)


def _check_as_made(table: PartitionedTable, options: WriteOptions) -> None:
    """Refuses options that apply when a table is made, where they contradict the table that is there.

    Raises:
        UnsupportedFeatureError: there is such an option.
    """
    hint = (
        "it is decided when the table is made, before Spark hands over the options of the write; make the table with "
        "this property, such as by writeTo(...).tableProperty(...)"
    )
    stable, version = options.enable_stable_row_ids, options.file_format_version
    if stable is not None and stable != table.has_stable_row_ids:
        raise UnsupportedFeatureError(f"option enable_stable_row_ids is {stable}: {hint}", feature="stable row ids")
    if version is not None and version != table.file_version.value:
        raise UnsupportedFeatureError(
            f"option file_format_version is {version}, the partitioned table has {table.file_version.value}: {hint}",
            feature="file format version of a partitioned table",
        )


def _row_source_addresses(ids: RowIds) -> RowOrigins:
    assert ids.keys is not None, "rows of a partitioned table have the keys of their partitions"
    is_new = ids.addresses == NO_ORIGIN
    keys = pa.array(np.where(is_new, None, ids.keys.to_numpy(zero_copy_only=False)), pa.string())
    return RowOrigins(keys, ids.addresses)


def _of_partitions(rows: Mapping[str | None, UInt64Array]) -> dict[str, UInt64Array]:
    return {key: addresses for key, addresses in rows.items() if key is not None}


def _written(files: Sequence[NewFiles]) -> list[WrittenPartition]:
    return [WrittenPartition(item.partition, item.unpack()) for item in files if item.partition is not None]
