"""Metrics of a read task for Spark's UI: requests to the store, bytes, and time.

Spark transfers Python accumulators from the worker when it has finished. A task that stops early, because its rows are
enough, reports no metrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam

from lance_spark.storage.meter import READS, ReadCounts

ACCUMULATOR_ID = -1
"""Spark assigns its own ids from 0."""


class _Last(AccumulatorParam[str]):
    """Keeps the last value."""

    def zero(self, value: str) -> str:
        return value

    def addInPlace(self, value1: str, value2: str) -> str:
        return value2


class Counts(Protocol):
    """Metrics that a task counts itself."""

    def metrics(self) -> Mapping[str, int]:
        """The counts by the names of Spark's metrics."""


@dataclass(frozen=True)
class MeteredTask:
    """Runs `task` and reports its metrics when it is done: a JSON object of numbers by metric name.

    Attributes:
        task: the task.
        counts: to which it adds; they are reported too.
    """

    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    counts: Counts | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told = Accumulator(ACCUMULATOR_ID, "{}", _Last())
        before = READS.counts
        seconds = 0.0
        results = iter(self.task(batches))
        while True:
            start = perf_counter()
            batch = next(results, None)
            seconds += perf_counter() - start
            if batch is None:
                break
            yield batch
        counted = {} if self.counts is None else self.counts.metrics()
        told += json.dumps({**cost_since(before, seconds), **counted})


def cost_since(before: ReadCounts, seconds: float) -> dict[str, int]:
    """The metrics by name of a read that took `seconds`; `before` are the earlier counts of this process."""
    read = READS.counts - before
    return {
        "requests": read.requests,
        "bytes_read": read.num_bytes,
        "fetch_time": _milliseconds(read.seconds),
        "decode_time": _milliseconds(max(0.0, seconds - read.seconds)),
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
