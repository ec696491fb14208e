"""Results that tasks of a write, of a row-level statement or of a search return to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.row_level.rewritten_rows import PackedAddresses
from lance_spark.table.row_level.row_writer import WrittenSplit
from lance_spark.table.rows.fragment import DataFile
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.filled_columns import BackfilledSplit
from lance_spark.table.writing.identity import IdentityColumns, UsedByTask

NUM_TASKS = "lance.num_tasks"
"""The local property of Spark's job with the number of tasks of a write; `LanceJobWrite` sets it."""


@dataclass(frozen=True, slots=True)
class TaskResult(WriterCommitMessage):
    """Result of one task.

    Attributes:
        written: new files, split by split.
        deleted: by key of the split, the addresses of rows that are deleted or rewritten.
        attempt: above 0 if an earlier attempt of the task failed, which may have left files.
        identity: the values of identity columns that it used; None if there are no such columns.
        columns: files with new values of columns of rows that do not move.
    """

    written: tuple[WrittenSplit, ...] = ()
    deleted: Mapping[str | None, PackedAddresses] = field(default_factory=dict)
    attempt: int = field(default_factory=lambda: attempt_number())
    identity: UsedByTask | None = None
    columns: tuple[BackfilledSplit, ...] = ()

    @property
    def num_rows(self) -> int:
        """Number of new rows, moved ones, and rows with new values."""
        new = sum(item.fragment.physical_rows or 0 for split in self.written for item in split.new)
        return new + sum(item.fragment.num_rows for item in self.columns)

    @property
    def files(self) -> list[DataFile]:
        """All new data files."""
        new = [file for split in self.written for item in split.new for file in item.fragment.files]
        return [*new, *(item.fragment.file for item in self.columns)]


def attempt_number() -> int:
    """Number of earlier attempts of the running task; 0 on the driver."""
    task = TaskContext.get()
    return 0 if task is None else int(task.attemptNumber())


def task_number(identity: IdentityColumns) -> tuple[int, int]:
    """(number of the running task, number of all tasks), for values of identity columns; (0, 1) without such columns.

    Raises:
        UnsupportedFeatureError: Spark does not say how many tasks there are.
    """
    task = TaskContext.get()
    if not identity or task is None:
        return 0, 1
    num_tasks = task.getLocalProperty(NUM_TASKS)
    if num_tasks is None or task.partitionId() >= int(num_tasks):
        raise UnsupportedFeatureError(
            "tasks of this write do not know how many they are, so they cannot choose values of identity columns",
            feature="identity columns",
        )
    return task.partitionId(), int(num_tasks)


def addresses_of(batches: Iterable[pa.RecordBatch]) -> PackedAddresses:
    """The addresses in the only column of `batches`, in that order."""
    return PackedAddresses.of(_joined(batch.column(0).to_numpy() for batch in batches))


def written_splits(results: Iterable[TaskResult]) -> list[WrittenSplit]:
    """The new files of all tasks, in the order of the rows."""
    return [split for result in results for split in result.written]


def filled_columns(results: Iterable[TaskResult]) -> list[BackfilledSplit]:
    """The files of all tasks with new values of columns of rows that do not move."""
    return [file for result in results for file in result.columns]


def deleted_rows(results: Iterable[TaskResult]) -> dict[str | None, UInt64Array]:
    """Addresses of the rows that the tasks delete or rewrite, by key of the split; some maybe more than once."""
    parts: dict[str | None, list[UInt64Array]] = {}
    for result in results:
        for key, packed in result.deleted.items():
            parts.setdefault(key, []).append(packed.unpack())
    return {key: _joined(addresses) for key, addresses in parts.items()}


def _joined(parts: Iterable[UInt64Array]) -> UInt64Array:
    return np.concatenate([np.empty(0, np.uint64), *parts])
