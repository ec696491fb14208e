"""What tasks of a DELETE, UPDATE or MERGE run."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from lance_spark.spark.jobs.row_changes import RowChangeJob, RowChanges


@dataclass(frozen=True)
class ChangeOutput:
    """What a task tells the driver: the output of its job, and how often it was tried before."""

    output: Any
    attempt: int


@dataclass(frozen=True)
class ChangeTask:
    """Takes the changes of a task, and returns one row with a pickled `ChangeOutput`."""

    job: RowChangeJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        output = self.job.apply(RowChanges.from_batch(batch) for batch in batches)
        task = TaskContext.get()
        told = ChangeOutput(output, 0 if task is None else task.attemptNumber())
        yield pa.RecordBatch.from_pydict({"message": pa.array([pickle.dumps(told)], pa.binary())})
