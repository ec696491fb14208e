"""Answers so small that the planner reads them itself, and their rows travel with the plan.

A task of Python costs some 20 ms beside its work, and a first one on an executor a second; for the rows of a small
table, or the first ones of a large one, that is most of the time. Here the very function that a task would run is run
by the planner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

import pyarrow as pa

from lance_spark.errors import LanceError
from lance_spark.spark.connector.channel.task_metrics import cost_since
from lance_spark.spark.connector.channel.tasks import TaskFunction, messages
from lance_spark.spark.options.options import DEFAULT_PARTITION_BYTES, ReadOptions
from lance_spark.spark.partitions import SizedRows
from lance_spark.storage.meter import READS

_MAX_ROWS = 1 << 18
"""However well they are packed."""

_MAX_PIECES = 64
"""Each of them is opened by itself."""

_EXPANSION = 4
"""Maximum expansion from encoded bytes to Arrow bytes."""


@dataclass(frozen=True, slots=True)
class InlineRows:
    """Rows of a scan.

    Attributes:
        streams: what each task returns, as an Arrow stream; nothing if there are no rows.
        cost: what the read has cost, by the names of the metrics.
    """

    streams: tuple[bytes, ...]
    num_rows: int
    num_bytes: int
    cost: Mapping[str, int]


def can_be_inline(parts: Iterable[SizedRows], options: ReadOptions, most: int) -> bool:
    """Whether the planner can read `parts` by itself: `most` bytes of the files at most, 0 for never. Not where the
    user has said how much a task reads. Of many parts only the first ones are looked at.
    """
    if most <= 0 or options.target_partition_bytes != DEFAULT_PARTITION_BYTES:
        return False
    num_pieces = num_bytes = num_rows = 0
    for part in parts:
        num_pieces += len(part)
        num_bytes += part.total_bytes
        num_rows += int(part.rows_to_read.sum())
        if num_pieces > _MAX_PIECES or num_rows > _MAX_ROWS or num_bytes > most:
            return False
    return True


def scan_locally(task: TaskFunction, work: Sequence[bytes], most: int, *, is_remote: bool) -> InlineRows | None:
    """Runs the tasks over `work` in this process; None if one fails, or if the result is much larger than `most` bytes.

    Then Spark runs the tasks, and they report errors.

    Args:
        most: the limit of the bytes that a read of this kind may take.
        is_remote: whether there is a store to wait for: then all of them run at the same time.
    """
    before, start = READS.counts, perf_counter()
    try:
        returned = list(_results(task, work, most * _EXPANSION, at_once=is_remote and len(work) > 1))
    except (LanceError, _TooLargeError):
        return None
    num_bytes = sum(batch.nbytes for batches in returned for batch in batches)
    if num_bytes > most * _EXPANSION:
        return None
    return InlineRows(
        tuple(map(stream_of, returned)),
        sum(batch.num_rows for batches in returned for batch in batches),
        num_bytes,
        cost_since(before, perf_counter() - start),
    )


def _results(task: TaskFunction, work: Sequence[bytes], most: int, *, at_once: bool) -> Iterator[list[pa.RecordBatch]]:
    if not at_once:
        # Without a thread: to start one takes as long as a small read.
        yield from (_run(task, item, most) for item in work)
        return
    with ThreadPoolExecutor(len(work)) as pool:
        yield from pool.map(lambda item: _run(task, item, most), work)


class _TooLargeError(Exception):
    """A task returns more than it can have read."""


def _run(task: TaskFunction, work: bytes, most: int) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in task(iter([messages([work])])):
        num_bytes += batch.nbytes
        if num_bytes > most:
            raise _TooLargeError
        if batch.num_rows:
            batches.append(batch)
    return batches


def stream_of(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Batches as an Arrow stream; nothing if there are none."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
