"""Tasks of a write, DELETE, UPDATE or MERGE."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.tasks import messages
from lance_spark.spark.jobs.job import Job
from lance_spark.spark.jobs.task_result import TaskResult
from lance_spark.spark.jobs.write_job import WriteJob


@dataclass(frozen=True)
class JobTask:
    """Takes the rows of a task, and returns one row with its pickled `TaskResult`."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield messages([pickle.dumps(self.job.write(iter(batches)))])


def pickle_job(job: WriteJob, handle: TableHandle) -> bytes:
    """A job for its commit, with the table that it writes to, by whose name errors then call it."""
    return pickle.dumps((handle, job))


def unpickle_job(attachment: bytes) -> WriteJob:
    """The job of `pickle_job`, from this very statement."""
    pickled: tuple[TableHandle, WriteJob] = pickle.loads(attachment)
    return pickled[1]


def unpickle_results(attachments: Iterable[bytes]) -> list[TaskResult]:
    """Task results of this very statement; tasks without rows may have returned none."""
    return [pickle.loads(attachment) for attachment in attachments if attachment]
