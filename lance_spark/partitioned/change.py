"""Writes to one partition. Each change makes one new version of the partition's table.

A change is committed to the version that readers of the partitioned table see as the partition's newest one
(`TableLocation.pinned_at`). If that version is later than the change's base, the conflict rules of tables decide
whether the change may be rebased.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lance_spark.errors import LanceError, RetryableConflictError
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.partitioned.writer import partition_schema
from lance_spark.storage.copying import copy_whole
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.merge import Merge
from lance_spark.table.paths import DATA
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.row_level.row_changes import DeletedRows, commit_row_changes
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.conform import same_columns
from lance_spark.table.writing.filled_columns import BackfilledFragment
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions, commit_append, commit_overwrite


@dataclass(frozen=True, slots=True)
class PartitionChange(ABC):
    """A change of one partition.

    Attributes:
        partition: as it was when the change was made, or as it is to be.
        base: the version that the change was made for; None if the partition was not there.
    """

    partition: Partition
    base: Manifest | None

    @abstractmethod
    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        """The new version of the partition's table.

        Args:
            table: the version of the partitioned table that it becomes a part of.
            location: the partition's table, pinned; it is empty if the partition is a new one.

        Raises:
            CommitConflictError: it cannot follow what others have committed since `base`.
        """

    def rebase_onto(self, table: PartitionedTable, other: Partition, base: Manifest) -> PartitionChange:
        """The change for a partition of the same values that another writer has created meanwhile.

        Raises:
            RetryableConflictError: it has to be computed again.
        """
        raise RetryableConflictError(
            f"another writer has created the partition {other.object_id}. Read the table and run the operation again"
        )


@dataclass(frozen=True, slots=True)
class AppendRows(PartitionChange):
    """New rows; creates the partition if need be."""

    new: tuple[NewFragment, ...]

    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        fragments = [item.fragment for item in self.new]
        if self.base is None:
            return _create(table, location, fragments, options)
        return commit_append(location, with_schema(table, location, self.base, options), fragments, options)

    def rebase_onto(self, table: PartitionedTable, other: Partition, base: Manifest) -> PartitionChange:
        source, target = table.location(self.partition).store, table.location(other).store
        copied: list[str] = []
        try:
            for item in self.new:
                for file in item.fragment.files:
                    copied.append(f"{DATA}/{file.path}")
                    copy_whole(source, copied[-1], target, copied[-1], source.size(copied[-1]))
        except LanceError:
            for path in copied:
                delete_quietly(target, path)
            raise
        return AppendRows(other, base, self.new)


@dataclass(frozen=True, slots=True)
class ReplaceRows(PartitionChange):
    """These rows instead of all that were there; creates the partition if need be."""

    new: tuple[NewFragment, ...]

    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        fragments = [item.fragment for item in self.new]
        if self.base is None:
            return _create(table, location, fragments, options)
        newest = location.history.load_latest().manifest
        if newest.version != self.base.version:
            raise RetryableConflictError(
                f"another writer has changed the partition {self.partition.object_id}, which is to be overwritten. "
                "Read the table and run the operation again",
                table_version=newest.version,
            )
        schema = partition_schema(table.lance_schema)
        return commit_overwrite(location, self.base, fragments, schema, table.file_version, options)


@dataclass(frozen=True, slots=True)
class ChangeRows(PartitionChange):
    """Deleted rows, by fragment and offset, new fragments and files of columns; as `commit_row_changes` takes them."""

    deleted: DeletedRows
    new: Sequence[NewFragment] = ()
    columns: Sequence[BackfilledFragment] = ()

    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        assert self.base is not None  # There are rows to change, so there is a version.
        base = with_schema(table, location, self.base, options) if self.new or self.columns else self.base
        return commit_row_changes(location, base, self.deleted, self.new, options, columns=self.columns)


Step = Callable[[TableLocation, Manifest], Manifest]
"""A new version of a partition's table from a base version; the base if nothing changes."""


@dataclass(frozen=True, slots=True)
class ChangeTable(PartitionChange):
    """Applies `step` to the partition's table. The step must check changes after `base` itself."""

    step: Step

    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        assert self.base is not None  # There is a table to change.
        return self.step(location, self.base)


@dataclass(frozen=True, slots=True)
class ChangeColumns(PartitionChange):
    """Applies `step` to the version that readers see at the time; data files of an abandoned version are removed."""

    step: Step

    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        return self.step(location, location.history.load_latest().manifest)

    def rebase_onto(self, table: PartitionedTable, other: Partition, base: Manifest) -> PartitionChange:
        return replace(self, partition=other, base=base)


@dataclass(frozen=True, slots=True)
class DropPartition(PartitionChange):
    """Removes the partition with all of its rows; its files stay for older versions until they are cleaned up."""

    def commit(self, table: PartitionedTable, location: TableLocation, options: CommitOptions) -> Manifest:
        newest = location.history.load_latest().manifest
        if self.base is None or newest.version != self.base.version:
            raise RetryableConflictError(
                f"another writer has changed the partition {self.partition.object_id}, which is to be removed. "
                "Read the table and run the operation again",
                table_version=newest.version,
            )
        return newest


def with_schema(table: PartitionedTable, location: TableLocation, base: Manifest, options: CommitOptions) -> Manifest:
    """`base`, or a version after it that has the namespace's columns: `base` may be older than some of them."""
    schema = partition_schema(table.lance_schema)
    if same_columns(base.schema, schema) or location.history.load_latest().manifest.version != base.version:
        # After another writer's commit the conflict rules look at the columns.
        return base
    merge = Merge(base.fragments, schema, preserves_nullability=True)
    transaction = Transaction.new(base.version, merge, options.all_properties())
    new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
    return Commit(location.history, base, transaction, new_table, options.policy).run()


def _create(
    table: PartitionedTable, location: TableLocation, fragments: Sequence[DataFragment], options: CommitOptions
) -> Manifest:
    options = replace(options, stable_row_ids=table.has_stable_row_ids)
    return commit_overwrite(
        location, None, fragments, partition_schema(table.lance_schema), table.file_version, options
    )
