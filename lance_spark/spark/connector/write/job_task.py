"""The code of the tasks of a write, DELETE, UPDATE or MERGE."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.spark.connector.channel.tasks import messages
from lance_spark.spark.jobs.job import Job


@dataclass(frozen=True)
class JobTask:
    """Takes the rows of a task, and returns one row with its pickled `TaskResult`."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield messages([pickle.dumps(self.job.write(iter(batches)))])
