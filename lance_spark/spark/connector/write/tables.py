"""Versions of tables that statements write to, opened from their handles: modes, jobs and deletions on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import IncompatibleConflictError, InvalidInputError, NotFoundError
from lance_spark.expr.literals import TRUE
from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.schema.projection import parse_path
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.tasks import PARTITION_COLUMN
from lance_spark.spark.connector.scan.partition_keys import SparkTransform, write_transforms
from lance_spark.spark.connector.write.overwrite_mode import (
    OVERWRITE_DYNAMIC,
    OVERWRITE_ROWS,
    is_everything,
    overwrite_mode,
)
from lance_spark.spark.jobs.row_change_job import RowChangeJob
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.jobs.write_plans import column_update, plan_changes, plan_write
from lance_spark.spark.options.options import TableDefaults, WriteOptions
from lance_spark.spark.predicates import SparkExpression
from lance_spark.spark.table_view import written_columns
from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS, column_names
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.plain_target import PlainTarget
from lance_spark.table.row_level.update_mode import RewriteMode
from lance_spark.table.row_level.write_target import AnyTarget, WriteMode
from lance_spark.table.source import Split
from lance_spark.table.writing.save import CommitOptions

ROW_ID = (ROW_ADDRESS,)
"""The columns that identify rows of a plain table."""

_LOOKED_AT_SPLITS = 64
"""The most partitions whose sizes decide how an update is planned."""

PARTITION_ROW_ID = (PARTITION_COLUMN, ROW_ADDRESS)
"""The columns that identify rows of a partitioned table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Distribution of rows to the tasks of a write, as in `WriteSummary`."""

    distribution: str = "none"
    clustering: tuple[SparkTransform, ...] = ()
    ordering: tuple[SparkTransform, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestedMode:
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

    def of_plain(self, handle: TableHandle) -> WriteMode:
        """The mode for a table without partitions, which is one partition.

        Raises:
            InvalidInputError: no such mode.
        """
        if self.mode == "append":
            return WriteMode.APPEND
        if self.mode == OVERWRITE_DYNAMIC or is_everything(self.predicates):
            replaces_columns = handle.replaces_schema or handle.version is None
            return WriteMode.OVERWRITE if replaces_columns else WriteMode.TRUNCATE
        return self._of_some_rows(self.mode)

    def of_partitioned(self, handle: TableHandle) -> WriteMode:
        """The mode for a partitioned table.

        Raises:
            InvalidInputError: no such mode, or option and statement contradict each other.
        """
        mode = overwrite_mode(
            handle.open_partitioned(),
            self.mode,
            self.predicates,
            option=self.option,
            session=self.session,
            by_path=handle.by_path,
        )
        if mode == "append":
            return WriteMode.APPEND
        if mode == OVERWRITE_DYNAMIC:
            return WriteMode.OVERWRITE_PARTITIONS
        if mode == OVERWRITE_ROWS and is_everything(self.predicates):
            return WriteMode.TRUNCATE
        return self._of_some_rows(mode)

    def _of_some_rows(self, mode: str) -> WriteMode:
        if mode != OVERWRITE_ROWS:
            raise InvalidInputError(f"unknown mode {self.mode!r} of a write")
        return WriteMode.REPLACE_WHERE


def write_target(handle: TableHandle) -> AnyTarget:
    """The version of `handle`, with the columns that the statement brings.

    Raises:
        NotFoundError: it was cleaned up, or the table was replaced by another one.
    """
    if handle.partitioned:
        return PartitionedTarget.of(handle.open_partitioned())
    if handle.version is None:
        return PlainTarget.of(handle.location(), None)
    return PlainTarget.of(*replace(handle, evolved=None).open(), handle.evolved_schema())


class WritableTable:
    """A version of a table, for a statement that writes to it."""

    def __init__(self, handle: TableHandle) -> None:
        self.handle = handle

    @property
    def row_id(self) -> tuple[str, ...]:
        """The columns that identify rows."""
        return PARTITION_ROW_ID if self.handle.partitioned else ROW_ID

    def newest(self) -> TableHandle:
        """The newest version, with the columns that the statement brings.

        Raises:
            IncompatibleConflictError: another writer has changed the columns that the statement was analysed with.
            NotFoundError: the table no longer exists.
        """
        target = write_target(replace(self.handle, evolved=None))
        newest = target.at(target.newest())
        if not newest.has_columns_of(target):
            raise IncompatibleConflictError(
                f"another writer has changed the columns of {self.handle.uri}, so it cannot go on. Run the statement "
                "again",
                table_version=newest.base_version,
            )
        return replace(self.handle, version=newest.base_version, timestamp_nanos=newest.committed_nanos)

    def delete_columns(self) -> pa.Schema:
        """The columns that the filter of a DELETE on the driver may name."""
        if self.handle.partitioned:
            # Not system columns: whether all rows of a partition match is decided by its values alone.
            return self.handle.source().stored_schema
        return self.handle.filterable()

    def check_changeable(self) -> None:
        """Passes if rows can be identified and changed.

        Raises:
            InvalidInputError: a column of the table hides one that identifies rows.
            UnsupportedFeatureError: this release cannot write to the table.
        """
        write_target(self.handle).check_commits()
        check_identifiable(self.handle.source().stored_schema, self.row_id)

    def splits(self, filter: Expr, most: int) -> Sequence[Split] | None:
        """The splits that may hold rows of `filter`; None if they are more than `most`."""
        return write_target(self.handle).few_splits(filter, most)

    def delete(self, filter: Expr, options: CommitOptions, *, is_serializable: bool) -> bool:
        """Deletes the rows of `filter`; false if there are none.

        Args:
            is_serializable: whether nobody else may have added rows of `filter` meanwhile.
        """
        target = write_target(self.handle)
        committed = target.delete_rows(filter, options, is_serializable=is_serializable)
        return bool(committed.version != target.base_version)

    def truncate(self) -> bool:
        """Removes all rows of the newest version; false if there are none."""
        newest = find_table(self.handle.location())
        if newest is None:
            raise NotFoundError(f"there is no Lance table {self.handle.display_name}")
        columns = written_columns(newest.lance_schema, newest.file_version, newest.properties)
        options = WriteOptions.parse({"path": self.handle.uri})
        return plan_write(newest.write_target(), columns, WriteMode.TRUNCATE, options).commit([]) is not None

    def write_mode(self, requested: RequestedMode) -> WriteMode:
        """Resolves the mode that Spark requests.

        Raises:
            InvalidInputError: no such mode, or option and statement contradict each other.
        """
        return (requested.of_partitioned if self.handle.partitioned else requested.of_plain)(self.handle)

    def plan_write(
        self, columns: StructType, mode: WriteMode, options: WriteOptions, replaced: Expr | None
    ) -> WriteJob:
        """The job of a write. Raises as `write_plans.plan_write`."""
        return plan_write(write_target(self.handle), columns, mode, options, replaced=replaced, from_query=True)

    def update_mode(self, columns: Sequence[str]) -> RewriteMode | None:
        """The update mode of a statement that changes some columns; None if complete rows are to move.

        Raises:
            UnsupportedFeatureError: the table's property `lance.update.mode` is "columns", and these columns cannot
                change in place.
        """
        if self.handle.evolved is not None:
            return None  # The rows bring columns that no file of their fragments has.
        target = write_target(self.handle)
        update = column_update(target, columns)
        if update is None or not update.is_worthwhile(target.few_splits(TRUE, _LOOKED_AT_SPLITS)):
            return None
        return update.mode

    def plan_changes(self, columns: StructType, options: WriteOptions, changed: Sequence[str] = ()) -> RowChangeJob:
        """The job of a DELETE, UPDATE or MERGE. Raises as `check_changeable` and `write_plans.plan_changes`."""
        self.check_changeable()
        return plan_changes(write_target(self.handle), columns, options, changed)

    def layout(self, job: WriteJob, options: WriteOptions) -> Layout:
        """Distribution of the rows of `job` to its tasks.

        Raises:
            InvalidInputError: an option does not apply to the table.
        """
        if not isinstance(job.target, PartitionedTarget):
            options.check_without_partitions()
            return Layout(ordering=_ordering(job))
        table = job.target.version
        distribution = options.distribution or TableDefaults.of(table.properties).distribution or "hash"
        return Layout(
            distribution, tuple(write_transforms(table.specs.current, table.lance_schema)), ordering=_ordering(job)
        )


def _ordering(job: WriteJob) -> tuple[SparkTransform, ...]:
    """The clustering columns of the table, if the rows have all of them and Spark can sort by them."""
    own = job.commit_options.config or job.target.changed_properties or {}
    text = own.get(CLUSTERING_COLUMNS, job.target.table_properties.get(CLUSTERING_COLUMNS)) or ""
    columns = column_names(text) if text.strip() else []
    paths = tuple(parse_path(column) for column in columns)
    if not all(_has_path(job.table_types, path) for path in paths):
        return ()
    return tuple(SparkTransform("identity", (path,)) for path in paths)


def _has_path(fields: pa.Schema | pa.StructType, path: Sequence[str]) -> bool:
    place = fields.get_field_index(path[0])
    if place < 0 or len(path) == 1:
        return bool(place >= 0)
    inner = fields.field(place).type
    return bool(pa.types.is_struct(inner)) and _has_path(inner, path[1:])


def table_of(handle: TableHandle) -> WritableTable:
    """The table of `handle`."""
    return WritableTable(handle)


def check_identifiable(columns: pa.Schema, row_id: Sequence[str]) -> None:
    """Passes if rows of a table with `columns` can be identified by the columns `row_id`.

    Raises:
        InvalidInputError: a column of the table hides one of them.
    """
    hidden = set(row_id) & set(columns.names)
    if hidden:
        raise InvalidInputError(
            f"rows of a table with a column {min(hidden)!r} cannot be identified; rename the column"
        )
