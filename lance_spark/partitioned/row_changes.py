"""Changes of rows of a partitioned table. A row whose partition values change moves to another partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.save import RowDelta, commit_delta
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion, identity_columns
from lance_spark.partitioned.writer import PartitionedWrite, PartitionWriter, RowOrigins, WrittenPartition
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import FieldId
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.manifests.marks import IdentityMark
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.row_level.row_target import RowTarget
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.save import CommitOptions


def change_rows(
    table: PartitionedTable, attempt: Callable[[PartitionRows], PartitionedTable], options: CommitOptions
) -> PartitionedTable:
    """The version that `attempt` makes of `table`, after a conflict of the newest version.

    Raises:
        StorageError: commits are not safe in this store (`History.check_commits`), and as `attempt`.
    """
    table.catalog.table.history.check_commits()

    def on_version(current: PartitionedTable) -> PartitionedTable:
        return attempt(PartitionRows(current, options))

    return retry_on_conflict(on_version, table, table.newest, options.policy)


class PartitionRows(RowTarget[PartitionedTable, list[WrittenPartition]]):
    """A version of a partitioned table, of which each partition is a split."""

    def __init__(self, table: PartitionedTable, options: CommitOptions) -> None:
        self.uri = table.root
        self.version = table.version
        self.lance_schema = table.lance_schema
        self._table = table
        self._options = options
        self._plan: PartitionedWrite | None = None

    @property
    def schema(self) -> pa.Schema:
        return to_arrow_schema(with_blob_descriptors(self.lance_schema, self._table.file_version, with_source=True))

    @property
    def identity(self) -> IdentityColumns:
        return identity_columns(self._table)

    def splits(self, filter: Expr | None = None) -> list[PartitionVersion]:
        return self._table.splits(filter)

    def newer(self, version: PartitionedTable) -> tuple[PartitionRows, list[PartitionVersion]]:
        known = {_pinned_version(partition) for partition in self._table.index.partitions} - {None}
        changed = [partition for partition in version.index.partitions if _pinned_version(partition) not in known]
        return PartitionRows(version, self._options), version.open_all(changed)

    def writer(self, columns: pa.Schema) -> _Writer:
        self._plan = PartitionedWrite.of(self._table, columns)
        return _Writer(self._plan)

    def commit(
        self,
        deleted: Mapping[str | None, UInt64Array],
        written: list[WrittenPartition],
        *,
        changed_fields: Sequence[FieldId],
        check: Callable[[PartitionedTable], None] | None = None,
        identity: IdentityMark | None = None,
    ) -> PartitionedTable:
        # Partitions record a change of all columns: a row that moves comes with all of them.
        delta = RowDelta({key: rows for key, rows in deleted.items() if key is not None}, written)
        options = replace(self._options, identity=identity)
        return commit_delta(self._table, self._plan, delta, options, check=check)


class _Writer:
    def __init__(self, plan: PartitionedWrite) -> None:
        self._writer = PartitionWriter(plan)

    def write(self, batch: pa.RecordBatch, split: Split | None = None, addresses: UInt64Array | None = None) -> None:
        if split is None or addresses is None:
            self._writer.write(batch)
        else:
            self._writer.write(batch, RowOrigins(pa.array([split.key] * batch.num_rows, pa.string()), addresses))

    def close(self) -> list[WrittenPartition]:
        return self._writer.close()

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        self._writer.__exit__(kind, error, traceback)


def _pinned_version(partition: Partition) -> tuple[object, ...] | None:
    """Which version readers see; None if that can change without a version of `__manifest`."""
    if partition.version is None or partition.tag is not None:
        return None
    return partition.location, partition.version, partition.branch
