"""Changes of the rows of a partitioned table: each makes one version of the table, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.change import AppendRows, ChangeRows, DropPartition, PartitionChange, ReplaceRows
from lance_spark.partitioned.commit import Check, commit_changes, with_operation_name
from lance_spark.partitioned.maintenance.compaction import compact_after
from lance_spark.partitioned.manifest_index import PartitionKey
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion
from lance_spark.partitioned.writer import WrittenPartition
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.row_level.delete import split_scan
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.row_level.row_changes import DeletedRows, rows_by_fragment
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.filled_columns import BackfilledFragment
from lance_spark.table.writing.save import CommitOptions


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Deleted and added rows, for `commit_delta`.

    Attributes:
        deleted: by object id of the partition, the addresses of its deleted rows.
        added: what tasks have written.
        dropped_partitions: object ids of partitions that are removed without reading their rows.
        mode: what an overwrite replaces; APPEND for all other changes.
        columns: by object id of the partition, files with new values of columns of rows that do not move.
    """

    deleted: Mapping[str, UInt64Array]
    added: Sequence[WrittenPartition] = ()
    dropped_partitions: Sequence[str] = ()
    mode: WriteMode = WriteMode.APPEND
    columns: Mapping[str, Sequence[BackfilledFragment]] = field(default_factory=dict)

    @classmethod
    def of_write(cls, table: PartitionedTable, added: Sequence[WrittenPartition], mode: WriteMode) -> RowDelta:
        """The change of `table` by a write."""
        written = {item.partition.key for item in added}
        dropped = [
            partition.object_id
            for partition in (() if mode is WriteMode.APPEND else table.index.partitions)
            if mode is not WriteMode.OVERWRITE_PARTITIONS or partition.key in written
        ]
        return cls({}, added, dropped, mode)

    @property
    def operation(self) -> str:
        """The operation in the table's history: "delete", "update", "append" or "overwrite"."""
        if self.mode is not WriteMode.APPEND:
            return "overwrite"
        if self.columns:
            return "update"
        if not self.added:
            return "delete"
        return "update" if self.dropped_partitions or any(map(len, self.deleted.values())) else "append"


def commit_delta(
    table: PartitionedTable,
    delta: RowDelta,
    options: CommitOptions | None = None,
    *,
    check: Check | None = None,
) -> PartitionedTable:
    """The version of `table` without some rows and with others; `table` if there are neither.

    After an error the files of added rows stay.

    Args:
        check: asked for each newer version that the commit has to follow.

    Raises:
        RetryableConflictError: another writer has touched one of the rows: find them again in the newest version.
        CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    changes, options = changes_from_delta(table, delta), with_operation_name(options, delta.operation)
    committed = commit_changes(table, changes, options, check=check)
    compact_after(committed, [change.partition.key for change in changes])
    return committed


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
    columns = {by_id[object_id].key: files for object_id, files in delta.columns.items()}
    partitions.update((by_id[object_id].key, by_id[object_id]) for object_id in delta.columns)
    existing = [partition for key, partition in partitions.items() if table.index.find(key) is not None]
    bases = {opened.partition.key: opened.manifest for opened in table.open_all(existing)}
    dropped_partitions = [by_id[object_id] for object_id in delta.dropped_partitions]
    emptied = table.open_all([partition for partition in dropped_partitions if partition.key not in new])
    changes: list[PartitionChange] = [DropPartition(opened.partition, opened.manifest) for opened in emptied]
    for partition in dropped_partitions:
        if partition.key in new:
            changes.append(ReplaceRows(partition, bases[partition.key], new[partition.key]))
            del partitions[partition.key]
    for key, partition in partitions.items():
        if key in deleted or key in columns:
            rows = deleted.get(key, {}), new.get(key, ())
            changes.append(ChangeRows(partition, bases[key], *rows, columns.get(key, ())))
        else:
            # A partition that another writer creates meanwhile gets appended rows too; an overwrite is computed again.
            kind = AppendRows if delta.mode is WriteMode.APPEND else ReplaceRows
            changes.append(kind(partition, bases.get(key), new[key]))
    return changes


def matching_rows(table: PartitionedTable, filter: Expr, searched: Mapping[str, UInt64Array] | None = None) -> RowDelta:
    """The rows for which `filter` is true, as deleted rows.

    Args:
        searched: by object id of the partition, their addresses in `partitions_to_search`; None to search them.
    """
    covered = sorted(partition.object_id for partition in table.covered_partitions(filter))
    if searched is not None:
        return RowDelta(searched, (), covered)
    deleted = {
        opened.partition.object_id: np.concatenate([np.empty(0, np.uint64), *_addresses(table, opened, filter)])
        for opened in partitions_to_search(table, filter)
    }
    return RowDelta(deleted, (), covered)


def partitions_to_search(table: PartitionedTable, filter: Expr) -> list[PartitionVersion]:
    """The partitions some of whose rows may match `filter`, and not all of them for certain."""
    covered = {partition.object_id for partition in table.covered_partitions(filter)}
    return table.open_all([item for item in table.partitions(filter) if item.object_id not in covered])


def _addresses(table: PartitionedTable, opened: PartitionVersion, condition: Expr) -> list[UInt64Array]:
    scan = Candidates.of(split_scan(table.lance_schema, opened, condition), opened.manifest, checks_exact=True)
    return [batch.column(0).to_numpy() for batch in scan.read(opened.manifest.fragments)]
