"""A DELETE, UPDATE or MERGE: rows that are deleted, rewritten and inserted, in one version.

Tasks get one change a row, evaluated by Spark. They write the new rows and report which rows they were; the driver
commits once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.spark.blobs.references import BlobInputs, with_references
from lance_spark.spark.jobs.job import Job, Version
from lance_spark.spark.jobs.original_values import OriginalValues, read_rows
from lance_spark.spark.jobs.task_result import TaskResult, deleted_rows, filled_columns, task_number
from lance_spark.spark.jobs.updates_in_place import FragmentUpdates, UpdatesInPlace
from lance_spark.spark.types.values import from_spark_batch
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN, PackedAddresses
from lance_spark.table.row_level.row_writer import RowOrigins
from lance_spark.table.rows.row_address import UInt64Array, distinct
from lance_spark.table.source import Split

BoolArray = npt.NDArray[np.bool_]


class ChangeKind(IntEnum):
    """Kind of a row change; the connector's jar puts these numbers into the first column."""

    DELETE = 0
    UPDATE = 1
    INSERT = 2


def by_split(origins: RowOrigins) -> Iterator[tuple[str | None, BoolArray]]:
    """Each split with rows, by its key, and bool[n]: which rows are in it; new rows are in none."""
    is_known: BoolArray = origins.addresses != NO_ORIGIN
    if origins.keys is None:
        if is_known.any():
            yield None, is_known
        return
    for key in origins.keys.filter(pa.array(is_known)).unique().to_pylist():
        yield key, is_known & pc.fill_null(pc.equal(origins.keys, key), False).to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Changes as a task gets them.

    Attributes:
        kinds: int8[n], of `ChangeKind`.
        ids: which rows are changed; new rows of an INSERT.
        rows: the rows that are written: one for each change but the DELETEs, in order, as Spark hands it over; None if
            there are none.
    """

    kinds: npt.NDArray[np.int8]
    ids: RowOrigins
    rows: pa.RecordBatch | None

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> RowChanges:
        """Made from a batch with columns kind, id and row, where id and row are structs.

        The last column of id is the row's address; before it comes the key of the split in a partitioned table.
        """
        kinds = batch.column("kind").to_numpy()
        ids = pa.RecordBatch.from_struct_array(batch.column("id"))
        # What stands in the ids of an INSERT has no meaning.
        addresses = ids.column(ids.num_columns - 1).fill_null(0).to_numpy().astype(np.uint64)
        addresses = np.where(kinds == ChangeKind.INSERT, np.uint64(NO_ORIGIN), addresses)
        row_ids = RowOrigins(ids.column(0) if ids.num_columns > 1 else None, addresses)
        rows = batch.column("row")
        is_written = kinds != ChangeKind.DELETE
        if not rows.type.num_fields or not is_written.any():
            return cls(kinds, row_ids, None)
        if not is_written.all():
            rows = rows.filter(pa.array(is_written))
        return cls(kinds, row_ids, pa.RecordBatch.from_struct_array(rows))

    @property
    def source_addresses(self) -> RowOrigins:
        """Which rows those in `rows` were."""
        return self.ids.where(self.kinds != ChangeKind.DELETE)

    def updates(self) -> Iterator[tuple[str | None, BoolArray, pa.RecordBatch]]:
        """The updated rows of each split: its key, bool[n] of the changes, and the rows."""
        if self.rows is None:
            return
        is_update: BoolArray = self.kinds == ChangeKind.UPDATE
        for key, is_here in by_split(self.ids):
            chosen: BoolArray = is_here & is_update
            if chosen.any():
                yield key, chosen, self.rows.filter(pa.array(chosen[self.kinds != ChangeKind.DELETE]))

    def without_updates(self) -> RowChanges:
        """The deleted and new rows."""
        is_other: BoolArray = self.kinds != ChangeKind.UPDATE
        rows = self.rows
        if rows is not None:
            rows = rows.filter(pa.array(is_other[self.kinds != ChangeKind.DELETE]))
        return RowChanges(
            self.kinds[is_other], self.ids.where(is_other), rows if rows is not None and rows.num_rows else None
        )


OPERATION = "spark.operation"
"""The transaction property that names the statement; what it counted is in properties beside it."""

_PREFIX = "spark."


@dataclass(frozen=True)
class RowChangeJob(Job):
    """A statement that changes rows of one table. `plan_changes` makes one.

    Attributes:
        originals: restores values that Spark has rounded; None if there are no such columns.
        blobs: that rows name.
        in_place: for updated rows that have the columns that change only; None if they come with all.
    """

    originals: OriginalValues | None = None
    blobs: BlobInputs = field(default_factory=BlobInputs)
    in_place: UpdatesInPlace | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        deleted = _DeletedRows()
        if self.in_place is not None:
            return self._write_in_place(self.in_place, map(RowChanges.from_batch, batches), deleted)
        changes = (deleted.with_those_of(RowChanges.from_batch(batch)) for batch in batches)
        if self.target.job is None:
            deque(changes, maxlen=0)
            return TaskResult((), deleted.packed())
        task, num_tasks = task_number(self.target.identity)
        with self.target.writer(task, num_tasks, self.blobs.others) as writer:
            for rows, origins in self._rows(changes):
                writer.write(rows, origins)
            return TaskResult(writer.close(), deleted.packed(), identity=writer.used())

    def _write_in_place(self, plan: UpdatesInPlace, batches: Iterable[RowChanges], deleted: _DeletedRows) -> TaskResult:
        writer = self.target.writer(*task_number(self.target.identity), self.blobs.others)
        with writer, FragmentUpdates(plan, cache(self.target.opener()), writer, deleted.add) as updates:
            for changes in batches:
                for key, is_here, rows in changes.updates():
                    updates.add(key, changes.ids.addresses[is_here], rows)
                others = changes.without_updates()
                for rows, origins in self._rows([deleted.with_those_of(others)]):
                    writer.write(rows, origins)
            columns = updates.close()
            return TaskResult(writer.close(), deleted.packed(), identity=writer.used(), columns=columns)

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
                deleted_rows(results),
                written,
                options,
                check=self.target.check_of(reads),
                columns=filled_columns(results),
            ),
            reads,
        )


@dataclass(frozen=True, slots=True)
class _DeletedRows:
    """Addresses of the rows that a task deletes or rewrites, by split."""

    parts: dict[str | None, list[UInt64Array]] = field(default_factory=dict)

    def add(self, key: str | None, addresses: UInt64Array) -> None:
        """Adds rows of one split."""
        self.parts.setdefault(key, []).append(addresses)

    def with_those_of(self, changes: RowChanges) -> RowChanges:
        """`changes`, whose rows are added."""
        for key, is_here in by_split(changes.ids):
            self.add(key, changes.ids.addresses[is_here])
        return changes

    def packed(self) -> dict[str | None, PackedAddresses]:
        # MERGE deletes a row twice that matches twice.
        return {key: PackedAddresses.of(distinct(np.concatenate(parts))) for key, parts in self.parts.items()}


def properties_of(statement: str, counts: Mapping[str, int]) -> dict[str, str]:
    """Transaction properties of a statement: its kind, and the counts that Spark has.

    >>> properties_of("UPDATE", {"numUpdatedRows": 3, "numCopiedRows": -1})
    {'spark.operation': 'UPDATE', 'spark.numUpdatedRows': '3'}
    """
    counted = {f"{_PREFIX}{name}": str(count) for name, count in counts.items() if count >= 0}
    return {OPERATION: statement, **counted}
