"""A DELETE, UPDATE or MERGE: rows that are deleted, rewritten and inserted, in one version.

Tasks write the new rows and report which rows they were; the driver commits once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np
import pyarrow as pa

from lance_spark.spark.blobs.references import BlobInputs, with_references
from lance_spark.spark.jobs.job import Job, Version
from lance_spark.spark.jobs.original_values import OriginalValues, read_rows
from lance_spark.spark.jobs.row_changes import RowChanges, by_split
from lance_spark.spark.jobs.task_result import TaskResult, deleted_rows, task_number
from lance_spark.spark.types.values import from_spark_batch
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.rewritten_rows import PackedAddresses
from lance_spark.table.row_level.write_target import RowOrigins
from lance_spark.table.rows.row_address import UInt64Array, distinct
from lance_spark.table.source import Split

OPERATION = "spark.operation"
"""The transaction property that names the statement; what it counted is in properties beside it."""

_PREFIX = "spark."


@dataclass(frozen=True)
class RowChangeJob(Job):
    """A statement that changes rows of one table. `plan_changes` makes one.

    Attributes:
        originals: restores values that Spark has rounded; None if there are no such columns.
        blobs: that rows name.
    """

    originals: OriginalValues | None = None
    blobs: BlobInputs = field(default_factory=BlobInputs)

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        deleted = _DeletedRows()
        changes = (deleted.with_those_of(RowChanges.from_batch(batch)) for batch in batches)
        if self.target.job is None:
            deque(changes, maxlen=0)
            return TaskResult((), deleted.packed())
        task, num_tasks = task_number(self.target.identity)
        with self.target.writer(task, num_tasks, self.blobs.others) as writer:
            for rows, origins in self._rows(changes):
                writer.write(rows, origins)
            return TaskResult(writer.close(), deleted.packed(), identity=writer.used())

    def _rows(self, changes: Iterable[RowChanges]) -> Iterator[tuple[pa.RecordBatch, RowOrigins]]:
        split_of = cache(self.target.opener()) if self.originals is not None else None
        for batch in changes:
            if batch.rows is not None:
                source_addresses, start = batch.source_addresses, 0
                restored = self._restored(batch.rows, source_addresses, split_of)
                for part in with_references(restored, self.blobs.mark):
                    yield part, source_addresses.slice(start, part.num_rows)
                    start += part.num_rows

    def _restored(
        self, rows: pa.RecordBatch, source_addresses: RowOrigins, split_of: Callable[[str | None], Split] | None
    ) -> pa.RecordBatch:
        batch = from_spark_batch(rows, self.table_types)
        if self.originals is None or split_of is None:
            return batch
        for key, is_here in by_split(source_addresses):
            split = split_of(key)
            read = partial(read_rows, split.table, split.manifest, source_addresses.addresses[is_here])
            batch = self.originals.restored(batch, is_here, read)
        return batch

    def commit(
        self, results: Sequence[TaskResult], properties: Mapping[str, str], *, reads: Sequence[ReadRows] = ()
    ) -> Version | None:
        """The version with the changes; None if there are none.

        Args:
            properties: of the transaction.
            reads: rows of the table that nobody else may have changed since they were read.

        Raises:
            RetryableConflictError: another writer has changed such rows. Nothing was changed, the files are removed.
            CommitConflictError: another writer was first. Nothing was changed, and the files are removed.
            CommitStateUnknownError: the store never said whether the version was committed, and the files stay.
        """
        options = self._with_identity(replace(self.commit_options, properties=properties), results)
        return self._run_commit(
            results,
            lambda written: self.target.change_rows(
                deleted_rows(results), written, options, check=self.target.check_of(reads)
            ),
            reads,
        )


@dataclass(frozen=True, slots=True)
class _DeletedRows:
    """Addresses of the rows that a task deletes or rewrites, by split."""

    parts: dict[str | None, list[UInt64Array]] = field(default_factory=dict)

    def with_those_of(self, changes: RowChanges) -> RowChanges:
        """`changes`, whose rows are added."""
        for key, is_here in by_split(changes.ids):
            self.parts.setdefault(key, []).append(changes.ids.addresses[is_here])
        return changes

    def packed(self) -> dict[str | None, PackedAddresses]:
        # MERGE deletes a row twice that matches twice.
        return {key: PackedAddresses.of(distinct(np.concatenate(parts))) for key, parts in self.parts.items()}


def properties_of(statement: str, counts: Mapping[str, int]) -> dict[str, str]:
    """Transaction properties of a statement: its kind, and the counts that Spark has.

    >>> properties_of("UPDATE", {"numUpdatedRows": 3, "numCopiedRows": -1})
    {'spark.operation': 'UPDATE', 'spark.numUpdatedRows': '3'}
    """
    known = {f"{_PREFIX}{name}": str(count) for name, count in counts.items() if count >= 0}
    return {OPERATION: statement, **known}
