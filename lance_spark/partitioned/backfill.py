"""Adds or updates columns of a partitioned table for rows identified by partition and address, as one version.

The three steps are those of one table (`table.columns.backfill`): the driver plans, tasks write a file for each
fragment with such rows, the driver commits. All partitions get the new columns, also those without such rows. Other
writers may append and delete rows meanwhile; if they rewrite rows of an affected partition, or change columns, the
commit fails with a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyroaring

from lance_spark.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lance_spark.file.writable import require_writable
from lance_spark.partitioned.change import ChangeTable, PartitionChange, Step
from lance_spark.partitioned.columns import follower, next_field_id, noted_ids
from lance_spark.partitioned.commit import Check, commit_changes, commit_specs, with_operation_name
from lance_spark.partitioned.table import NUM_THREADS, PartitionedTable, PartitionVersion, open_partitioned
from lance_spark.partitioned.writer import partition_schema
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.overlap import overlapped
from lance_spark.table.columns.backfill import ColumnsToFill, commit_backfill
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.source import Split
from lance_spark.table.writing.filled_columns import (
    BackfilledFragment,
    BackfilledSplit,
    BackfillPlan,
    column_file_version,
    remove_backfill,
)
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.write import remove_job_files


@dataclass(frozen=True, slots=True)
class PartitionedBackfill:
    """Backfill plan for tasks; it can be pickled.

    Attributes:
        root, storage_options: the namespace.
        version: of `__manifest`: the one whose addresses the rows have.
        schema: the columns of the table afterwards.
        written: the columns that the files get.
        replaces: whether the table has these columns.
        job: the write job that the files are a part of.
    """

    root: str
    storage_options: Mapping[str, str] | None
    version: int
    schema: LanceSchema
    written: LanceSchema
    replaces: bool
    job: str

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows for `BackfillWriter.write`."""
        return to_arrow_schema(self.written)

    def table(self) -> PartitionedTable:
        """The version that the plan was made for."""
        return open_partitioned(self.root, version=self.version, storage_options=self.storage_options)

    def opener(self) -> Callable[[str | None], Split]:
        """See `Backfill.opener`."""
        table = self.table()

        def open_split(key: str | None) -> Split:
            partition = None if key is None else table.index.by_id.get(key)
            if partition is None:
                raise NotFoundError(f"{table!r} has no partition {key!r}, which a row to fill names")
            return table.open(partition)

        return open_split

    def of_split(self, split: Split) -> BackfillPlan:
        """See `Backfill.of_split`."""
        manifest = split.manifest
        check_writable(manifest.writer_flags, split.table.uri)
        file_version = column_file_version(manifest, self.written)
        require_writable(self.written, file_version)
        schema = partition_schema(self.schema)
        return BackfillPlan(manifest.version, schema, self.written, self.replaces, file_version, self.job)

    def commit(self, written: Sequence[BackfilledSplit]) -> int:
        """See `Backfill.commit`."""
        return commit_partitioned_backfill(self, written).version

    def remove_files(self) -> None:
        """Removes the files of all tasks, also of killed ones; no version may name them."""
        table = self.table()

        def remove(location: TableLocation) -> None:
            remove_job_files(location.store, self.job)

        overlapped(remove, [table.location(item) for item in table.index.partitions], NUM_THREADS)


def plan_partitioned_columns(table: PartitionedTable, fields: pa.Schema, job: str) -> PartitionedBackfill:
    """A plan for top-level columns that `table` lacks; they allow nulls.

    Raises:
        InvalidInputError: a column is there, or Lance cannot hold its type.
        UnsupportedFeatureError: this release cannot write such columns.
        StorageError: commits are not safe in this store.
    """
    return _plan(table, ColumnsToFill.new(table.lance_schema, fields, next_field_id(table)), job)


def plan_partitioned_values(table: PartitionedTable, columns: Sequence[str], job: str) -> PartitionedBackfill:
    """A plan for other values of top-level columns of `table`.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: rows lie in their partitions by the values of such a column.
        UnsupportedFeatureError: this release cannot write such columns.
        StorageError: commits are not safe in this store.
    """
    filled = ColumnsToFill.existing(table.lance_schema, columns)
    _refuse_sources(table, filled.written)
    return _plan(table, filled, job)


def _plan(table: PartitionedTable, columns: ColumnsToFill, job: str) -> PartitionedBackfill:
    table.catalog.table.history.check_commits()
    require_writable(columns.written, table.file_version)
    return PartitionedBackfill(
        table.root, table.storage_options, table.version, columns.schema, columns.written, columns.replaces, job
    )


def _refuse_sources(table: PartitionedTable, written: LanceSchema) -> None:
    """Passes if no row would have to lie in another partition afterwards."""
    for spec in {partition.spec.id: partition.spec for partition in table.index.partitions}.values():
        for field in spec.fields:
            for column in written.fields:
                if any(node.id in field.source_ids for node in column.walk()):
                    raise InvalidInputError(
                        f"partition field {field.field_id!r} of {table.root} is computed from column "
                        f"{column.name!r}, so its values cannot be filled in place; use UPDATE or MERGE, which move "
                        "rows to other partitions"
                    )


def commit_partitioned_backfill(
    plan: PartitionedBackfill, written: Sequence[BackfilledSplit], options: CommitOptions | None = None
) -> PartitionedTable:
    """The version of the table with the columns of all files. After an error the files are removed.

    Raises:
        RetryableConflictError: others have moved rows or changed columns; begin again with the newest version.
        CommitConflictError: it conflicts with what other writers have committed. Nothing is visible.
        CommitStateUnknownError: the store never said whether the version was committed; the files stay.
        StorageError: the store failed. Nothing is visible.
    """
    table = plan.table()
    by_id: dict[str, list[BackfilledFragment]] = {}
    for item in written:
        if item.key is not None:
            by_id.setdefault(item.key, []).append(item.fragment)

    def remove() -> None:
        for object_id, files in by_id.items():
            remove_backfill(table.location(table.index.by_id[object_id]).store, files)

    with cleanup_on_failure(remove):
        opened = table.open_all([table.index.by_id[object_id] for object_id in by_id])
        changes = [_change(table, plan, item, by_id[item.partition.object_id], options) for item in opened]
        check = MovedRowsCheck(table, [(item, by_id[item.partition.object_id]) for item in opened])
        committed = _committed(table, plan, changes, check, options)
    if committed.version > table.version + 1:
        for before in opened:
            _remove_unused(committed, before, by_id[before.partition.object_id])
    return committed


def _committed(
    table: PartitionedTable,
    plan: PartitionedBackfill,
    changes: Sequence[PartitionChange],
    check: Check,
    options: CommitOptions | None,
) -> PartitionedTable:
    if plan.replaces:
        return commit_changes(table, changes, with_operation_name(options, "update"), check=check)
    return commit_specs(
        table,
        replace(table.specs, schema=plan.schema),
        with_operation_name(options, "columns"),
        step=follower(plan.schema, options),
        properties=noted_ids(table, plan.schema),
        changes=changes,
        check=check,
    )


def _change(
    table: PartitionedTable,
    plan: PartitionedBackfill,
    opened: PartitionVersion,
    files: Sequence[BackfilledFragment],
    options: CommitOptions | None,
) -> PartitionChange:
    return ChangeTable(opened.partition, opened.manifest, _step(table, plan.of_split(opened), files, options))


def _step(
    table: PartitionedTable, plan: BackfillPlan, files: Sequence[BackfilledFragment], options: CommitOptions | None
) -> Step:
    follow = follower(table.lance_schema, options)

    def step(table: TableLocation, base: Manifest) -> Manifest:
        if table.history.load_latest().manifest.version == base.version:
            # A partition written by others may lack columns. After their commit the conflict rules decide.
            base = follow(table, base)
        return commit_backfill(table, base, replace(plan, base_version=base.version), files, options, keeps_files=True)

    return step


def _remove_unused(made: PartitionedTable, opened: PartitionVersion, files: Iterable[BackfilledFragment]) -> None:
    """Removes the files of fragments that other writers have emptied meanwhile."""
    partition = made.index.find(opened.partition.key)
    used: set[str] = set()
    if partition is not None:
        messages = made.open(partition).manifest.fragments.messages
        used = {file.path for message in messages for file in message.files}
    remove_backfill(opened.table.store, [item for item in files if item.file.path not in used])


class MovedRowsCheck:
    """Looks at newer versions of the table for backfilled rows that may have moved to another partition.

    Such a row is deleted here and new there, where its value would be missing. Which of the new rows it is cannot be
    seen, so backfilled rows may be deleted only if no rows are added anywhere.

    Args:
        base: the version that the addresses are of.
        filled: the partitions with such rows, and the rows.
    """

    def __init__(
        self, base: PartitionedTable, filled: Sequence[tuple[PartitionVersion, Sequence[BackfilledFragment]]]
    ) -> None:
        self._base = base
        self._filled = filled

    def __call__(self, current: PartitionedTable) -> None:
        """Passes if no backfilled row has moved.

        Raises:
            RetryableConflictError: one may have.
        """
        if any(self._has_lost(current, *item) for item in self._filled) and self._has_new_rows(current):
            raise RetryableConflictError(
                f"another writer has deleted rows of {current.root} that values are written for, or moved them to "
                "other partitions. Read the table and run the operation again",
                table_version=current.version,
            )

    def _has_lost(
        self, current: PartitionedTable, before: PartitionVersion, files: Sequence[BackfilledFragment]
    ) -> bool:
        partition = current.index.find(before.partition.key)
        if partition is None or partition == before.partition:
            return False  # The commit refuses partitions that were dropped.
        now = current.open(partition)
        old, new = _by_number(before.manifest), _by_number(now.manifest)
        for item in files:
            was, left = old[item.fragment_id], new.get(item.fragment_id)
            if left is None:
                return True
            if left.deletion_file != was.deletion_file:
                deleted = _deleted(left, now) - _deleted(was, before)
                if deleted & pyroaring.BitMap.deserialize(item.rows):
                    return True
        return False

    def _has_new_rows(self, current: PartitionedTable) -> bool:
        changed = [item for item in current.index.partitions if item != self._base.index.find(item.key)]
        for now in current.open_all(changed):
            before = self._base.index.find(now.partition.key)
            if before is None or before.location != now.partition.location:
                return True
            if not _by_number(now.manifest).keys() <= _by_number(self._base.open(before).manifest).keys():
                return True
        return False


def _by_number(manifest: Manifest) -> dict[int, DataFragment]:
    return {int(fragment.id): fragment for fragment in manifest.fragments}


def _deleted(fragment: DataFragment, opened: PartitionVersion) -> pyroaring.BitMap:
    offsets = FragmentReader(fragment, opened.table.bases(opened.manifest)).deletions.offsets
    return pyroaring.BitMap(offsets.tolist())
