"""Answers so small that the planner reads them itself, and their rows travel with the plan.

A task of Python costs some 20 ms beside its work, and a first one on an executor a second; for the rows of a small
table, or the first ones of a large one, that is most of the time. Here the very function that a task would run is run
by the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import pyarrow as pa

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.spark.bridge.registry import Session
from lance_spark.spark.bridge.task_metrics import cost_since
from lance_spark.spark.bridge.tasks import TaskFunction
from lance_spark.storage.meter import READS

DEFAULT_BYTES = 1 << 20
"""The bytes of a read that is done at once."""

MAX_ROWS = 1 << 18
"""However well they are packed."""

_EXPANSION = 4
"""So many times larger than in the files the rows may be."""

_SETTING = "spark.sql.lance.inlineBytes"


@dataclass(frozen=True, slots=True)
class InlineRows:
    """Rows of a scan.

    Attributes:
        streams: what each task returns, as an Arrow stream.
        cost: what the read has cost, by the names of the metrics.
    """

    streams: tuple[bytes, ...]
    num_rows: int
    num_bytes: int
    cost: Mapping[str, int]


def most_bytes(session: Session) -> int:
    """The bytes of a read that is done at once, as the session says.

    Raises:
        InvalidInputError: its setting is no number.
    """
    text = session.inline_bytes
    if text is None:
        return DEFAULT_BYTES
    if not (text.isascii() and text.isdigit()):
        raise InvalidInputError(f"{_SETTING} is {text!r}; it is a number of bytes, 0 for none")
    return int(text)


def inline_rows(task: TaskFunction, work: Sequence[bytes], most: int) -> InlineRows | None:
    """What a task over all of `work` returns; None if it fails, or if it is much more than the `most` bytes that a read
    of this kind may take: then the tasks have to do it, and to tell.
    """
    before, start = READS.counts, perf_counter()
    batches: list[pa.RecordBatch] = []
    returned = 0
    try:
        for batch in task(iter([pa.RecordBatch.from_pydict({"work": pa.array(work, pa.binary())})])):
            returned += batch.nbytes
            if returned > most * _EXPANSION:
                return None
            batches.append(batch)
    except LanceError:
        return None
    num_rows = sum(batch.num_rows for batch in batches)
    streams = (_stream(batches),) if num_rows else ()
    return InlineRows(streams, num_rows, returned, cost_since(before, perf_counter() - start))


def _stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
