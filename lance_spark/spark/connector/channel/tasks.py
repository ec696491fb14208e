"""What tasks run: functions over Arrow batches, pickled by the driver as Spark's workers expect them.

The functions are instances of classes of this module, so that a pickle holds their data and not their code.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructType

from lance_spark.errors import LanceError
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.spark.connector.channel.conditions import TaskError
from lance_spark.spark.connector.channel.warm_worker import keep_imports
from lance_spark.spark.connector.channel.wire_types import to_wire_batch
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.partitions import FragmentSlice
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import DataFragment

MESSAGE_TYPE = StructType().add("message", BinaryType())


@dataclass(frozen=True, slots=True)
class ReadWork:
    """What one read task does.

    Attributes:
        slices: what to read.
        runtime_filter: what rows have to match besides the filter of all tasks.
    """

    slices: tuple[FragmentSlice, ...]
    runtime_filter: Expr | None = None

    def to_bytes(self) -> bytes:
        """The work as a row carries it to a task."""
        return pickle.dumps(self)

    @staticmethod
    def of_rows(batches: Iterable[pa.RecordBatch]) -> list[ReadWork]:
        """All of the input at once: a worker that leaves some of it unread cannot be used again."""
        # Pickled by the driver of this very query; it never was in a file or with a user.
        return [pickle.loads(row.as_py()) for batch in batches for row in batch.column(0)]


def narrowed(scan: Scan, more: Expr | None) -> Scan:
    """`scan` of those rows only that match `more` too."""
    terms = tuple(term for term in (scan.filter, more) if term is not None)
    return scan if more is None else replace(scan, filter=conjunction(terms))


@dataclass(frozen=True)
class ReadTask:
    """Reads the slices that its only input row names.

    Attributes:
        scan: what to read.
        target: the columns in the Arrow types that Spark expects.
        limit: rows after which a task stops.
    """

    scan: Scan
    target: pa.Schema
    limit: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self.limit
        for work in ReadWork.of_rows(batches):
            for batch in self._read(work):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                yield to_wire_batch(batch, self.target)
                if left == 0:
                    return

    def _read(self, work: ReadWork) -> Iterator[pa.RecordBatch]:
        scan = narrowed(self.scan, work.runtime_filter)
        for piece in work.slices:
            yield from scan.read_fragment(DataFragment.from_bytes(piece.fragment), start=piece.start, stop=piece.stop)


@dataclass(frozen=True)
class TaskOutput:
    """What a write task tells the driver; `fragments` as `lance.table.DataFragment` bytes in row order."""

    fragments: tuple[bytes, ...]
    attempt: int = 0


@dataclass(frozen=True)
class WriteTask:
    """Writes its input rows, and returns one row with a pickled `TaskOutput`."""

    job: WriteJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fragments = self.job.write(iter(batches))
        task = TaskContext.get()
        output = TaskOutput(
            tuple(fragment.to_bytes() for fragment in fragments), 0 if task is None else task.attemptNumber()
        )
        yield pa.RecordBatch.from_pydict({"message": pa.array([pickle.dumps(output)], pa.binary())})


def messages(results: Iterable[bytes]) -> pa.RecordBatch:
    """What a task tells the driver, one row a result."""
    return pa.RecordBatch.from_pydict({"message": pa.array(list(results), pa.binary())})


TaskFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class _InWarmWorker:
    """Runs `function` in a worker that serves more tasks after this one."""

    function: TaskFunction

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.function(batches)
        except LanceError as error:
            raise TaskError(error) from error
        keep_imports()


def command(function: TaskFunction, returns: StructType) -> bytes:
    """`function` as Spark's Python workers read it."""
    return pickle.dumps((_InWarmWorker(function), returns))
