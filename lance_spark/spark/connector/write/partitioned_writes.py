"""Writes to partitioned tables that are there."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.save import SaveMode
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.jobs.partitioned_write_job import PartitionedWriteJob, PartitionFiles
from lance_spark.spark.options import WriteOptions
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.rows.row_address import UInt64Array

_MODES = {"append": SaveMode.APPEND, "overwrite": SaveMode.OVERWRITE, "overwrite_dynamic": SaveMode.DYNAMIC_OVERWRITE}


@dataclass(frozen=True)
class PartitionedTaskOutput:
    """What a write task tells the driver."""

    files: tuple[PartitionFiles, ...]
    attempt: int = 0

    @property
    def fragments(self) -> tuple[bytes, ...]:
        """All that was written, as `lance.table.DataFragment` bytes."""
        return tuple(fragment for item in self.files for fragment in item.fragments)


@dataclass(frozen=True)
class PartitionedWriteTask:
    """Writes its input rows, and returns one row with a pickled `PartitionedTaskOutput`."""

    job: PartitionedWriteJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = self.job.write(iter(batches))
        task = TaskContext.get()
        output = PartitionedTaskOutput(files, 0 if task is None else task.attemptNumber())
        yield pa.RecordBatch.from_pydict({"message": pa.array([pickle.dumps(output)], pa.binary())})


def timestamp_of(whole: PartitionedTable) -> int:
    """When the version was committed, in nanoseconds: it tells the version from that of a table made anew."""
    dataset = whole.catalog_version.dataset
    assert dataset is not None, "a partitioned table has a manifest"
    return dataset.manifest.timestamp_nanos


def partitioned_job(
    handle: TableHandle, columns: StructType, mode: str, options: WriteOptions, replaced: Expr | None
) -> PartitionedWriteJob:
    """The job of a write to a table that is there.

    Args:
        mode: as Spark has asked for it.
        replaced: which rows go with "overwrite"; None for all.
    """
    if mode not in _MODES:
        raise InvalidInputError(f"unknown mode {mode!r} of a write")
    return PartitionedWriteJob.of(handle.open_partitioned(), columns, _MODES[mode], options, replaced)


def commit_partitioned(
    job: PartitionedWriteJob,
    messages: Iterable[bytes],
    gone: Mapping[str, UInt64Array] | None = None,
    reads: Sequence[ReadRows] = (),
) -> PartitionedTable | None:
    """Commits what tasks have told; None if that changes nothing.

    Args:
        gone, reads: as `PartitionedWriteJob.commit` takes them.
    """
    outputs = _told(messages)
    files = [item for output in outputs for item in output.files]
    return job.commit(files, repeated=any(output.attempt for output in outputs), gone=gone, reads=reads)


def abort_partitioned(job: PartitionedWriteJob, messages: Iterable[bytes], *, all_tasks_told: bool) -> None:
    """Removes the files of a job that failed."""
    files = [item for output in _told(messages) for item in output.files]
    job.abort(files, all_tasks_told=all_tasks_told)


def _told(messages: Iterable[bytes]) -> list[PartitionedTaskOutput]:
    # Pickled by the tasks of this very statement.
    return [pickle.loads(message) for message in messages if message]
