"""Tasks that read partitioned tables: rows, or groups of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.spark.connector.channel.tasks import messages, narrowed
from lance_spark.spark.connector.channel.wire_types import to_wire_batch
from lance_spark.spark.connector.scan.aggregates import AggregateTask
from lance_spark.spark.connector.scan.top_n import SortKey, TopNTask
from lance_spark.spark.connector.write.found_rows import FoundRows
from lance_spark.spark.partitions import FragmentSlice
from lance_spark.storage import open_store
from lance_spark.table.bases import BasePath, Bases
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import DataFragment

PARTITION_COLUMN = "_partition"
"""The metadata column that tells the partition of a row, by its object id."""


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """Fragments of one partition for one task.

    Attributes:
        uri: of the partition's table, or of its branch.
        object_id: of the partition.
        base_paths: of its table.
        stable_row_ids: whether that has them.
        slices: what to read.
        runtime_filter: what rows have to match besides the filter of all tasks.
        version: of the partition's table.
        shown_as: what errors call the version of the whole if a clean-up has removed it.
    """

    uri: str
    object_id: str
    base_paths: tuple[BasePath, ...]
    stable_row_ids: bool
    slices: tuple[FragmentSlice, ...]
    runtime_filter: Expr | None = None
    version: int | None = None
    shown_as: str | None = None


@dataclass(frozen=True)
class PartitionedReadTask:
    """Reads the work that its only input row names.

    Attributes:
        scan: what to read of each partition; its bases are none.
        target: the columns in the Arrow types that Spark expects.
        storage_options: how to reach the partitions.
        limit: rows after which a task stops.
    """

    scan: Scan
    target: pa.Schema
    storage_options: dict[str, str]
    limit: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self.limit
        for object_id, batch in self._read(_work(batches)):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield to_wire_batch(self._with_partition(batch, object_id), self.target)
            if left == 0:
                return

    def _read(self, work: list[PartitionWork]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows, and the partitions that they are in."""
        for part in work:
            for batch in _rows(self.scan, self.storage_options, part):
                yield part.object_id, batch

    def _with_partition(self, batch: pa.RecordBatch, object_id: str) -> pa.RecordBatch:
        place = self.target.get_field_index(PARTITION_COLUMN)
        if place < 0 or PARTITION_COLUMN in batch.schema.names:
            return batch
        told = pa.repeat(pa.scalar(object_id), batch.num_rows)
        columns = [*batch.columns[:place], told, *batch.columns[place:]]
        names = [*batch.schema.names[:place], PARTITION_COLUMN, *batch.schema.names[place:]]
        return pa.RecordBatch.from_arrays(columns, names)


def _work(batches: Iterable[pa.RecordBatch]) -> list[PartitionWork]:
    """All of the input at once: a worker that leaves some of it unread cannot be used again."""
    # Pickled by the driver of this very query; it never was in a file or with a user.
    return [part for batch in batches for work in batch.column(0) for part in pickle.loads(work.as_py())]


@dataclass(frozen=True)
class PartitionedAggregateTask(AggregateTask):
    """The groups of the rows of partitions.

    Attributes:
        storage_options: how to reach the partitions.
    """

    storage_options: dict[str, str]

    def _read(self, scan: Scan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in _work(batches):
            yield from _rows(scan, self.storage_options, part)


@dataclass(frozen=True)
class PartitionedTopNTask(PartitionedReadTask):
    """The first rows, in the order of `keys`, of each partition.

    Attributes:
        first: how many rows.
    """

    keys: tuple[SortKey, ...] = ()
    first: int = 0

    def _read(self, work: list[PartitionWork]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for part in work:
            scan = _scan_of(self.scan, self.storage_options, part)
            for batch in TopNTask(scan, self.keys, self.first, self.target).first_rows(part.slices):
                yield part.object_id, batch


@dataclass(frozen=True)
class PartitionedSearchTask:
    """Tells which rows the filter of `scan` keeps: one pickled `FoundRows` for each partition in each piece of work.

    Attributes:
        scan: for the address of each row; its bases are none.
        storage_options: how to reach the partitions.
    """

    scan: Scan
    storage_options: dict[str, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (FoundRows.of(part.object_id, _rows(self.scan, self.storage_options, part)) for part in _work(batches))
        yield messages(map(pickle.dumps, found))


def _scan_of(scan: Scan, storage_options: dict[str, str], part: PartitionWork) -> Scan:
    """`scan`, whose bases are none, for one partition."""
    store = open_store(part.uri, storage_options)
    bases = Bases(store, part.base_paths, storage_options, version=part.version, shown_as=part.shown_as)
    return narrowed(replace(scan, bases=bases, stable_row_ids=part.stable_row_ids), part.runtime_filter)


def _rows(scan: Scan, storage_options: dict[str, str], part: PartitionWork) -> Iterator[pa.RecordBatch]:
    own = _scan_of(scan, storage_options, part)
    for piece in part.slices:
        yield from own.read_fragment(DataFragment.from_bytes(piece.fragment), start=piece.start, stop=piece.stop)
