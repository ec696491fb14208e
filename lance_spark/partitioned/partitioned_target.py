"""Partitioned tables as targets of writes: a split a partition, one version of `__manifest` a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import IncompatibleConflictError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.file.writable import require_writable
from lance_spark.namespace.locations import location_uri
from lance_spark.partitioned.commit import Check, with_operation_name
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.new_table import NewPartitionedTable, commit_new
from lance_spark.partitioned.read_conflicts import partition_check_of
from lance_spark.partitioned.replace import commit_planned, with_columns_of
from lance_spark.partitioned.row_delta import RowDelta, commit_delta, matching_rows, partitions_to_search
from lance_spark.partitioned.spec import PartitionSpecs
from lance_spark.partitioned.table import (
    PartitionedTable,
    PartitionVersion,
    PlannedTable,
    identity_columns,
    open_partitioned,
)
from lance_spark.partitioned.writer import PartitionWriter, WrittenPartition
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.table.paths import new_job
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.row_writer import WrittenSplit
from lance_spark.table.row_level.write_target import OtherTables, RowSearch, WriteMode, WriteTarget, check_columns_fit
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.file_limits import FileLimits
from lance_spark.table.writing.filled_columns import BackfilledFragment, BackfilledSplit
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.row_pipeline import RowPipeline
from lance_spark.table.writing.save import CommitOptions


@dataclass(frozen=True)
class PartitionedTarget(WriteTarget[PartitionedTable]):
    """A partitioned table; rows go to the partitions of their values.

    Attributes:
        root, storage_options: of the namespace.
        pipeline: completes and checks the rows; None if none are written.
        base_version: None if the rows make the table.
        specs: the columns and specs that the table is to get with the rows; None if it keeps its own.
    """

    root: str
    storage_options: Mapping[str, str] | None
    base_version: int | None
    identity: IdentityColumns = field(default_factory=IdentityColumns)
    pipeline: RowPipeline | None = None
    job: str | None = None
    limits: FileLimits = field(default_factory=FileLimits)
    specs: PartitionSpecs | None = None
    changed_properties: Mapping[str, str | None] | None = None
    _opened: PartitionedTable | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, table: PartitionedTable, properties: Mapping[str, str | None] | None = None) -> PartitionedTarget:
        """The target of `table`: of a `PlannedTable` or a new one, the rows bring its columns and specs.

        Args:
            properties: of the namespace, which change with the rows if columns or specs do.
        """
        return cls(
            table.root,
            table.storage_options,
            None if isinstance(table, NewPartitionedTable) else table.version,
            identity_columns(table),
            specs=table.specs if isinstance(table, (NewPartitionedTable, PlannedTable)) else None,
            changed_properties=table.own_properties if isinstance(table, NewPartitionedTable) else properties,
            _opened=table,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Tasks open the version if they need it.
        return {name: value for name, value in self.__dict__.items() if name != "version"} | {"_opened": None}

    @property
    def uri(self) -> str:
        return self.root

    @property
    def can_rebase(self) -> bool:
        # New columns and specs are made for one version.
        return self.specs is None

    @property
    def lance_schema(self) -> LanceSchema:
        return self.version.lance_schema

    @property
    def table_schema(self) -> LanceSchema:
        return self.version.lance_schema

    @property
    def table_properties(self) -> Mapping[str, str]:
        return self.version.properties

    @property
    def placing_fields(self) -> frozenset[int]:
        return frozenset(source for item in self.version.specs.fields_of_all() for source in item.source_ids)

    @property
    def has_stable_row_ids(self) -> bool:
        return self.version.has_stable_row_ids

    @property
    def committed_nanos(self) -> int:
        return self.version.versions_manifest.timestamp_nanos

    @property
    def read_schema(self) -> pa.Schema:
        table = self.version
        return to_arrow_schema(with_blob_descriptors(table.lance_schema, table.file_version, with_source=True))

    @cached_property
    def version(self) -> PartitionedTable:
        """The version, with the columns and specs that it is to get."""
        if self._opened is not None:
            return self._opened
        if self.base_version is None:
            assert self.specs is not None, "a table that is not there has columns"
            properties = {name: value for name, value in (self.changed_properties or {}).items() if value is not None}
            return NewPartitionedTable(self.root, self.storage_options, self.specs, properties)
        table = self.numbered(self.base_version)
        return table if self.specs is None else PlannedTable(table, self.specs)

    def at(self, version: PartitionedTable) -> PartitionedTarget:
        return replace(self, base_version=version.version, identity=identity_columns(version), _opened=version)

    def numbered(self, version: int) -> PartitionedTable:
        return open_partitioned(self.root, version=version, storage_options=self.storage_options)

    def newest(self) -> PartitionedTable:
        return self.version.newest()

    def check_commits(self) -> None:
        self.version.catalog.table.history.check_commits()

    def splits(self, filter: Expr | None = None) -> list[PartitionVersion]:
        return self.version.splits(filter)

    def changed_splits(self, before: PartitionedTarget) -> list[PartitionVersion]:
        same = {_pinned_version(partition) for partition in before.version.index.partitions} - {None}
        table = self.version
        return table.open_all([item for item in table.index.partitions if _pinned_version(item) not in same])

    def few_splits(self, filter: Expr, most: int) -> list[PartitionVersion] | None:
        partitions = self.version.partitions(filter)
        return self.version.open_all(partitions) if len(partitions) <= most else None

    def has_columns_of(self, other: PartitionedTarget) -> bool:
        return self.version.specs == other.version.specs

    def opener(self) -> Callable[[str | None], Split]:
        table = self.version

        def open_split(key: str | None) -> Split:
            assert key is not None, "a partition has a key"
            return table.open(table.index.by_id[key])

        return open_split

    def search(self, filter: Expr) -> RowSearch:
        table = self.version
        splits = partitions_to_search(table, filter)
        return RowSearch(splits, table.plan(splits[0], [ROW_ADDRESS], filter) if splits else None)

    def taking(
        self,
        columns: pa.Schema,
        limits: FileLimits | None = None,
        *,
        mode: WriteMode = WriteMode.APPEND,
        merge_schema: bool = False,
        file_format_version: str | None = None,
    ) -> PartitionedTarget:
        self.check_commits()
        if file_format_version not in (None, self.version.file_version.value):
            raise UnsupportedFeatureError(
                f"the partitioned table {self.root} has files of version {self.version.file_version.value}",
                feature="file format version of a partitioned table",
            )
        target = self
        if merge_schema and mode is WriteMode.APPEND:
            target = PartitionedTarget.of(with_columns_of(self.version, columns), self.changed_properties)
        table = target.version
        pipeline = RowPipeline.of(table.lance_schema, columns, target.identity)
        require_writable(pipeline.schema, table.file_version)
        return replace(target, pipeline=pipeline, job=new_job(), limits=limits or FileLimits())

    def writer(self, task: int = 0, num_tasks: int = 1, blobs: OtherTables | None = None) -> PartitionWriter:
        assert self.pipeline is not None, "rows are written"
        assert self.job is not None, "rows are written by a job"
        others = None if blobs is None else blobs(self.storage_options)
        rows = self.pipeline.start(task, num_tasks)
        return PartitionWriter(rows, self.version, self.pipeline.schema, self.limits, self.job, others)

    def fitting(self, written: Sequence[WrittenSplit], planned: PartitionedTarget) -> Sequence[WrittenSplit]:
        if self.base_version == planned.base_version:
            return written
        current, before = self.version, planned.version
        check_columns_fit(current.lance_schema, before.lance_schema, self.root, current.version)
        if current.specs.specs != before.specs.specs:
            raise _unfit(f"changed the partitioning of {self.root}", current)
        result = []
        for item in _partitions(written):
            was, now = (table.index.find(item.partition.key) for table in (before, current))
            if (was and was.location) != (now and now.location):
                changed = f"created, replaced or removed the partition {item.partition.object_id} of {self.root}, "
                raise _unfit(f"{changed}which gets new rows", current)
            result.append(replace(item, partition=now or item.partition))
        return result

    def check_of(self, reads: Sequence[ReadRows]) -> Check | None:
        if not reads:
            return None
        table = self.version
        return partition_check_of(table.base if isinstance(table, PlannedTable) else table, reads)

    def save(
        self,
        mode: WriteMode,
        written: Sequence[WrittenSplit],
        options: CommitOptions,
        check: Check | None = None,
    ) -> PartitionedTable:
        return self._commit(RowDelta.of_write(self.version, _partitions(written), mode), options, check)

    def change_rows(
        self,
        deleted: Mapping[str | None, UInt64Array],
        written: Sequence[WrittenSplit],
        options: CommitOptions,
        *,
        changed_fields: Sequence[FieldId] | None = None,
        check: Check | None = None,
        columns: Sequence[BackfilledSplit] = (),
    ) -> PartitionedTable:
        # Partitions record a change of all columns: a row that moves comes with all of them.
        by_id: dict[str, list[BackfilledFragment]] = {}
        for item in columns:
            if item.key is not None:
                by_id.setdefault(item.key, []).append(item.fragment)
        return self._commit(RowDelta(_of_partitions(deleted), _partitions(written), columns=by_id), options, check)

    def _matching(self, filter: Expr, before: RowDelta | None) -> RowDelta:
        return matching_rows(self.version, filter)

    def _found(self, filter: Expr, matching: Mapping[str | None, UInt64Array]) -> RowDelta:
        return matching_rows(self.version, filter, _of_partitions(matching))

    def _replace(
        self,
        matching: RowDelta,
        written: Sequence[WrittenSplit] | None,
        options: CommitOptions,
        *,
        predicate: str,
        check: Check | None = None,
    ) -> PartitionedTable:
        if written is None:
            return self._commit(matching, options, check)
        delta = replace(matching, added=_partitions(written))
        return self._commit(delta, with_operation_name(options, "overwrite"), check)

    def _commit(self, delta: RowDelta, options: CommitOptions, check: Check | None) -> PartitionedTable:
        table = self.version
        if isinstance(table, NewPartitionedTable):
            return commit_new(table, delta, options)
        if isinstance(table, PlannedTable):
            return commit_planned(table, delta, options, properties=self.changed_properties, check=check)
        return commit_delta(table, delta, options, check=check)

    def stores(self, written: Sequence[WrittenSplit], columns: Sequence[BackfilledSplit] = ()) -> list[ObjectStore]:
        locations = dict.fromkeys(item.partition.location for item in _partitions(written))
        locations.update(
            (self.version.index.by_id[item.key].location, None) for item in columns if item.key is not None
        )
        return [open_store(location_uri(self.root, location), self.storage_options) for location in locations]


def _unfit(action: str, current: PartitionedTable) -> IncompatibleConflictError:
    return IncompatibleConflictError(
        f"another writer has {action}. Run the operation again", own="replace_where", table_version=current.version
    )


def _pinned_version(partition: Partition) -> tuple[object, ...] | None:
    """Identity of the version that readers see; None if that can change without a version of `__manifest`."""
    if partition.version is None or partition.tag is not None:
        return None
    return partition.location, partition.version, partition.branch


def _of_partitions(rows: Mapping[str | None, UInt64Array]) -> dict[str, UInt64Array]:
    return {key: addresses for key, addresses in rows.items() if key is not None}


def _partitions(written: Sequence[WrittenSplit]) -> list[WrittenPartition]:
    return [item for item in written if isinstance(item, WrittenPartition)]
