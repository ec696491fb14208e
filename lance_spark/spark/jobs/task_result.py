"""Results that tasks of a write, of a row-level statement or of a search return to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.spark.jobs.packed_addresses import PackedAddresses
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.identity import IdentityColumns, IdentityValues, UsedByTask

if TYPE_CHECKING:
    from lance_spark.partitioned.manifest_index import Partition


NUM_TASKS = "lance.num_tasks"
"""The local property of Spark's job with the number of tasks of a write; `LanceJobWrite` sets it."""


@dataclass(frozen=True, slots=True)
class NewFiles:
    """New fragments of one split.

    Attributes:
        fragments: as `lance.table.DataFragment` bytes, in row order.
        origins: for each fragment the address that each row had; empty if all rows are new.
        partition: of the split; None in a plain table.
    """

    fragments: tuple[bytes, ...]
    source_addresses: tuple[PackedAddresses, ...] = ()
    partition: Partition | None = None

    @classmethod
    def of(
        cls, new: Sequence[NewFragment], partition: Partition | None = None, *, with_source_addresses: bool
    ) -> NewFiles:
        """`new` as it travels to the driver."""
        fragments = tuple(item.fragment.to_bytes() for item in new)
        known = (
            [item.source_addresses for item in new if item.source_addresses is not None]
            if with_source_addresses
            else []
        )
        return cls(fragments, tuple(map(PackedAddresses.of, known)), partition)

    def unpack(self) -> tuple[NewFragment, ...]:
        """The new fragments, in the form that a commit takes."""
        fragments = map(DataFragment.from_bytes, self.fragments)
        if not self.source_addresses:
            return tuple(map(NewFragment, fragments))
        return tuple(
            NewFragment(fragment, packed.unpack())
            for fragment, packed in zip(fragments, self.source_addresses, strict=True)
        )


@dataclass(frozen=True, slots=True)
class TaskResult(WriterCommitMessage):
    """Result of one task.

    Attributes:
        written: new files, split by split.
        deleted: by key of the split, the addresses of rows that are deleted or rewritten.
        attempt: above 0 if an earlier attempt of the task failed, which may have left files.
        identity: the values of identity columns that it used; None if there are no such columns.
    """

    written: tuple[NewFiles, ...] = ()
    deleted: Mapping[str | None, PackedAddresses] = field(default_factory=dict)
    attempt: int = field(default_factory=lambda: attempt_number())
    identity: UsedByTask | None = None

    @property
    def fragments(self) -> tuple[bytes, ...]:
        """All new fragments, as `lance.table.DataFragment` bytes."""
        return tuple(fragment for files in self.written for fragment in files.fragments)


def attempt_number() -> int:
    """Number of earlier attempts of the running task; 0 on the driver."""
    task = TaskContext.get()
    return 0 if task is None else int(task.attemptNumber())


def identity_values(columns: IdentityColumns) -> IdentityValues:
    """The values of identity columns that the running task gives to new rows.

    Raises:
        UnsupportedFeatureError: Spark does not say how many tasks there are.
    """
    task = TaskContext.get()
    if not columns or task is None:
        return columns.values()
    num_tasks = task.getLocalProperty(NUM_TASKS)
    if num_tasks is None or task.partitionId() >= int(num_tasks):
        raise UnsupportedFeatureError(
            "tasks of this write do not know how many they are, so they cannot choose values of identity columns",
            feature="identity columns",
        )
    return columns.values(task.partitionId(), int(num_tasks))


def addresses_of(batches: Iterable[pa.RecordBatch]) -> PackedAddresses:
    """The addresses in the only column of `batches`, in that order."""
    return PackedAddresses.of(_joined(batch.column(0).to_numpy() for batch in batches))


def new_files(results: Iterable[TaskResult]) -> Iterator[NewFiles]:
    """The new files of all tasks, in the order of the rows."""
    return (files for result in results for files in result.written)


def deleted_rows(results: Iterable[TaskResult]) -> dict[str | None, UInt64Array]:
    """Addresses of the rows that the tasks delete or rewrite, by key of the split; some maybe more than once."""
    parts: dict[str | None, list[UInt64Array]] = {}
    for result in results:
        for key, packed in result.deleted.items():
            parts.setdefault(key, []).append(packed.unpack())
    return {key: _joined(addresses) for key, addresses in parts.items()}


def _joined(parts: Iterable[UInt64Array]) -> UInt64Array:
    return np.concatenate([np.empty(0, np.uint64), *parts])
