"""What a read task tells Spark's UI besides its rows: requests to the store, bytes, and where its time went.

Spark carries accumulators of Python from the worker to the task when the worker has come to its end. A task that stops
before, because its rows are enough, tells nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam

from lance_spark.storage.meter import READS, ReadCounts

ACCUMULATOR_ID = -1
"""Spark counts its own from 0."""


class _Last(AccumulatorParam[str]):
    """Keeps the last value."""

    def zero(self, value: str) -> str:
        return value

    def addInPlace(self, value1: str, value2: str) -> str:
        return value2


@dataclass(frozen=True)
class MeteredTask:
    """`task`, which tells when it is done what it has cost: a JSON object of numbers, by the names of the metrics."""

    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

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
        told += json.dumps(cost_since(before, seconds))


def cost_since(before: ReadCounts, seconds: float) -> dict[str, int]:
    """By the names of the metrics, what a read of so many seconds has cost; `before` it the counts of this process."""
    read = READS.counts - before
    return {
        "requests": read.requests,
        "bytes_read": read.num_bytes,
        "fetch_time": _milliseconds(read.seconds),
        "decode_time": _milliseconds(max(0.0, seconds - read.seconds)),
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
