"""The versions of tables that statements write to: what plain and partitioned tables do differently on the driver.

`table_of` is the one place of this package that asks for the kind of a table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import IncompatibleConflictError, InvalidInputError, NotFoundError
from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.commit import Check
from lance_spark.partitioned.read_conflicts import partition_check_of
from lance_spark.partitioned.save import delete_rows as delete_partitioned_rows
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.tasks import PARTITION_COLUMN
from lance_spark.spark.connector.scan.partition_keys import SparkTransform, write_transforms
from lance_spark.spark.connector.write.overwrite_mode import (
    OVERWRITE_DYNAMIC,
    OVERWRITE_ROWS,
    is_everything,
    overwrite_mode,
)
from lance_spark.spark.jobs.partitioned_target import (
    PartitionedTarget,
    plan_partitioned_changes,
    plan_partitioned_write,
)
from lance_spark.spark.jobs.plain_target import check_plain_changeable, plan_plain_changes, plan_plain_write
from lance_spark.spark.jobs.row_change_job import RowChangeJob
from lance_spark.spark.jobs.target import WriteMode
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import TableDefaults, WriteOptions
from lance_spark.spark.predicates import SparkExpression
from lance_spark.spark.table_view import written_columns
from lance_spark.storage.paths import with_absolute_path
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.delete import delete_rows
from lance_spark.table.row_level.read_conflicts import ReadRows, check_of
from lance_spark.table.row_level.row_changes import NewerVersionCheck
from lance_spark.table.source import Split, TableSource
from lance_spark.table.writing.save import CommitOptions

ROW_ID = (ROW_ADDRESS,)
"""The columns that identify rows of a plain table."""

PARTITION_ROW_ID = (PARTITION_COLUMN, ROW_ADDRESS)
"""The columns that identify rows of a partitioned table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Distribution of rows to the tasks of a write, as in `WriteSummary`."""

    distribution: str = "none"
    clustering: tuple[SparkTransform, ...] = ()


@dataclass(frozen=True, slots=True)
class AskedMode:
    """Write mode that Spark requests.

    Attributes:
        mode: "append", "overwrite" (of the rows for which `predicates` are true) or "overwrite_dynamic".
        option: partitionOverwriteMode of the write; None if it is not set.
        session: the session's setting of that name.
    """

    mode: str
    predicates: tuple[SparkExpression, ...]
    option: str | None
    session: str

    def conditional(self) -> WriteMode:
        """The mode of an overwrite of some rows.

        Raises:
            InvalidInputError: it is not one.
        """
        if self.mode != OVERWRITE_ROWS:
            raise InvalidInputError(f"unknown mode {self.mode!r} of a write")
        return WriteMode.REPLACE_WHERE


class WritableTable(ABC):
    """A version of a table, for a statement that writes to it.

    Attributes:
        row_id: the columns that identify rows.
    """

    row_id: tuple[str, ...]

    def __init__(self, handle: TableHandle) -> None:
        self.handle = handle

    @abstractmethod
    def newest(self) -> TableHandle:
        """The newest version, with the columns that the statement brings.

        Raises:
            IncompatibleConflictError: somebody has changed the columns that the statement was analysed with.
            NotFoundError: the table no longer exists.
        """

    @abstractmethod
    def delete_columns(self) -> pa.Schema:
        """The columns that the filter of a DELETE on the driver may name."""

    @abstractmethod
    def check_changeable(self) -> None:
        """Passes if rows can be identified and changed.

        Raises:
            InvalidInputError: a column of the table hides one that identifies rows.
            UnsupportedFeatureError: this release cannot write to the table.
        """

    @abstractmethod
    def splits(self, filter: Expr, most: int) -> Sequence[Split] | None:
        """The splits that may hold rows of `filter`; None if they are more than `most`."""

    @abstractmethod
    def delete(self, filter: Expr, options: CommitOptions, *, is_serializable: bool) -> bool:
        """Deletes the rows of `filter`; false if there are none.

        Args:
            is_serializable: whether nobody else may have added rows of `filter` meanwhile.
        """

    @abstractmethod
    def truncate(self) -> bool:
        """Removes all rows of the newest version; false if there are none."""

    @abstractmethod
    def write_mode(self, asked: AskedMode) -> WriteMode:
        """Resolves the mode that Spark requests.

        Raises:
            InvalidInputError: no such mode, or option and statement contradict each other.
        """

    @abstractmethod
    def plan_write(
        self, columns: StructType, mode: WriteMode, options: WriteOptions, replaced: Expr | None
    ) -> WriteJob:
        """The job of a write. Raises as `plan_plain_write` and `plan_partitioned_write`."""

    @abstractmethod
    def plan_changes(self, columns: StructType, options: WriteOptions) -> RowChangeJob:
        """The job of a DELETE, UPDATE or MERGE. Raises as `plan_plain_changes` and `plan_partitioned_changes`."""

    @abstractmethod
    def layout(self, job: WriteJob, options: WriteOptions) -> Layout:
        """Distribution of the rows of `job` to its tasks.

        Raises:
            InvalidInputError: an option does not apply to the table.
        """

    def _columns_changed(self, version: int) -> IncompatibleConflictError:
        return IncompatibleConflictError(
            f"another writer has changed the columns of {self.handle.uri}, so it cannot go on. Run the statement again",
            table_version=version,
        )


def table_of(handle: TableHandle) -> WritableTable:
    """The table of `handle`."""
    return _Partitioned(handle) if handle.partitioned else _Plain(handle)


class _Plain(WritableTable):
    row_id = ROW_ID

    def newest(self) -> TableHandle:
        location, base = replace(self.handle, evolved=None).open()
        found = location.latest()
        if found is None:
            raise NotFoundError(f"the table {location.uri} no longer exists")
        if found.schema.fields != base.schema.fields:
            raise self._columns_changed(found.version)
        return replace(self.handle, version=found.version, timestamp_nanos=found.timestamp_nanos)

    def delete_columns(self) -> pa.Schema:
        return self.handle.filterable()

    def check_changeable(self) -> None:
        check_plain_changeable(*self.handle.open())

    def splits(self, filter: Expr, most: int) -> Sequence[Split] | None:
        return [Split(*self.handle.open())]

    def delete(self, filter: Expr, options: CommitOptions, *, is_serializable: bool) -> bool:
        self.check_changeable()
        location, base = self.handle.open()

        def check(version: Manifest) -> NewerVersionCheck | None:
            return check_of(location, [ReadRows(version.version, filter)], version.schema)

        return delete_rows(location, base, filter, options, check=check if is_serializable else None) is not base

    def truncate(self) -> bool:
        location = self.handle.location()
        newest = location.latest()
        if newest is None:
            raise NotFoundError(f"there is no Lance table at {with_absolute_path(location.uri)}")
        columns = written_columns(newest.schema, data_format(newest), newest.config)
        options = WriteOptions.parse({"path": location.uri})
        return plan_plain_write(location, newest, columns, WriteMode.TRUNCATE, options).commit([]) is not None

    def write_mode(self, asked: AskedMode) -> WriteMode:
        if asked.mode == "append":
            return WriteMode.APPEND
        # A table without partitions is one partition.
        if asked.mode == OVERWRITE_DYNAMIC or is_everything(asked.predicates):
            replaces_columns = self.handle.replaces_schema or self.handle.version is None
            return WriteMode.OVERWRITE if replaces_columns else WriteMode.TRUNCATE
        return asked.conditional()

    def plan_write(
        self, columns: StructType, mode: WriteMode, options: WriteOptions, replaced: Expr | None
    ) -> WriteJob:
        return plan_plain_write(
            self.handle.location(),
            None if self.handle.version is None else self.handle.open()[1],
            columns,
            mode,
            options,
            replaced=replaced,
            evolved=self.handle.evolved_schema(),
            from_query=True,
        )

    def plan_changes(self, columns: StructType, options: WriteOptions) -> RowChangeJob:
        return plan_plain_changes(*self.handle.open(), columns, options, self.handle.evolved_schema())

    def layout(self, job: WriteJob, options: WriteOptions) -> Layout:
        options.check_without_partitions()
        return Layout()


class _Partitioned(WritableTable):
    row_id = PARTITION_ROW_ID

    def newest(self) -> TableHandle:
        base = replace(self.handle, evolved=None).open_partitioned()
        found = base.newest()
        if found.specs != base.specs:
            raise self._columns_changed(found.version)
        return replace(self.handle, version=found.version, timestamp_nanos=found.versions_manifest.timestamp_nanos)

    def delete_columns(self) -> pa.Schema:
        # Not system columns: whether all rows of a partition match is decided by its values alone.
        return self.handle.open_partitioned().stored_schema

    def check_changeable(self) -> None:
        check_partitioned_changeable(self.handle.open_partitioned())

    def splits(self, filter: Expr, most: int) -> Sequence[Split] | None:
        table = self.handle.open_partitioned()
        partitions = table.partitions(filter)
        return table.open_all(partitions) if len(partitions) <= most else None

    def delete(self, filter: Expr, options: CommitOptions, *, is_serializable: bool) -> bool:
        table = self.handle.open_partitioned()

        def check(version: PartitionedTable) -> Check | None:
            return partition_check_of(version, [ReadRows(version.version, filter)])

        made = delete_partitioned_rows(table, filter, options, check=check if is_serializable else None)
        return made is not table

    def truncate(self) -> bool:
        newest = self.handle.open_partitioned().newest()
        columns, options = (
            written_columns(newest.lance_schema, newest.file_version, newest.properties),
            WriteOptions.parse({"path": self.handle.uri}),
        )
        return plan_partitioned_write(newest, columns, WriteMode.TRUNCATE, options).commit([]) is not None

    def write_mode(self, asked: AskedMode) -> WriteMode:
        mode = overwrite_mode(
            self.handle.open_partitioned(),
            asked.mode,
            asked.predicates,
            option=asked.option,
            session=asked.session,
            by_path=self.handle.by_path,
        )
        if mode == "append":
            return WriteMode.APPEND
        if mode == OVERWRITE_DYNAMIC:
            return WriteMode.OVERWRITE_PARTITIONS
        if mode == OVERWRITE_ROWS and is_everything(asked.predicates):
            return WriteMode.TRUNCATE
        return asked.conditional()

    def plan_write(
        self, columns: StructType, mode: WriteMode, options: WriteOptions, replaced: Expr | None
    ) -> WriteJob:
        return plan_partitioned_write(self.handle.open_partitioned(), columns, mode, options, replaced=replaced)

    def plan_changes(self, columns: StructType, options: WriteOptions) -> RowChangeJob:
        self.check_changeable()
        return plan_partitioned_changes(self.handle.open_partitioned(), columns, options)

    def layout(self, job: WriteJob, options: WriteOptions) -> Layout:
        assert isinstance(job.target, PartitionedTarget), "the table is partitioned"
        table = job.target.table()
        distribution = options.distribution or TableDefaults.of(table.properties).distribution or "hash"
        return Layout(distribution, tuple(write_transforms(table.specs.current, table.lance_schema)))


def check_partitioned_changeable(table: TableSource) -> None:
    """Passes if rows of `table` can be identified.

    Raises:
        InvalidInputError: a column of the table hides one that identifies rows.
    """
    hidden = set(PARTITION_ROW_ID) & set(table.stored_schema.names)
    if hidden:
        raise InvalidInputError(
            f"rows of a table with a column {min(hidden)!r} cannot be identified; rename the column"
        )
