"""Tasks that write columns for rows given by their addresses."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.backfill import PartitionBackfillWriter, PartitionedBackfill
from lance_spark.spark.connector.channel.tasks import PARTITION_COLUMN, messages
from lance_spark.spark.connector.write.tables import PARTITION_ROW_ID, ROW_ID
from lance_spark.spark.types import from_spark_batch
from lance_spark.table.columns.backfill import BackfillPlan, write_backfill
from lance_spark.table.location import TableLocation
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.rows.row_address import UInt64Array, split_addresses

_Home = tuple[str | None, int]
"""A partition, None in a plain table, and a fragment in it."""


@dataclass(frozen=True)
class BackfillTask:
    """Writes the columns of the fragments of its rows, which are sorted by address.

    Attributes:
        target: address and columns, in the table's types.
    """

    location: TableLocation
    plan: BackfillPlan
    target: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        base = self.location.at(self.plan.base_version).manifest
        places = {message.id: place for place, message in enumerate(base.fragments.messages)}
        bases = self.location.bases(base)
        written = []
        for (_, number), rows in by_fragment(batches, self.target, ROW_ID):
            if number not in places:
                raise NotFoundError(f"version {base.version} of {self.location.uri} has no fragment {number}")
            fragment = base.fragments[places[number]]
            columns = rows.drop_columns([ROW_ADDRESS])
            made = write_backfill(self.location.store, bases, self.plan, fragment, _addresses(rows), columns)
            if made is not None:
                written.append(pickle.dumps(made))
        yield messages(written)


@dataclass(frozen=True)
class PartitionedBackfillTask:
    """As `BackfillTask`, for the fragments of partitions; rows are sorted by partition and address.

    Attributes:
        target: partition, address and columns, in the table's types.
    """

    plan: PartitionedBackfill
    target: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = PartitionBackfillWriter(self.plan)
        written = []
        for (object_id, _), rows in by_fragment(batches, self.target, PARTITION_ROW_ID):
            assert object_id is not None, "the rows have a partition"
            columns = rows.drop_columns(list(PARTITION_ROW_ID))
            made = writer.write(object_id, _addresses(rows), columns)
            if made is not None:
                written.append(pickle.dumps(made))
        yield messages(written)


def by_fragment(
    batches: Iterable[pa.RecordBatch], target: pa.Schema, ids: Sequence[str]
) -> Iterator[tuple[_Home, pa.Table]]:
    """The rows of each fragment, in the types of `target`, from batches of Spark that are sorted by address.

    Args:
        ids: the columns with the address, and the partition if any.

    Raises:
        InvalidInputError: a row has no address.
    """
    held: list[pa.RecordBatch] = []
    current: _Home | None = None
    for shown in batches:
        batch = from_spark_batch(shown, target)
        for home, start, stop in _runs(batch, ids):
            if home != current and current is not None:
                yield current, pa.Table.from_batches(held)
                held = []
            current = home
            held.append(batch.slice(start, stop - start))
    if current is not None:
        yield current, pa.Table.from_batches(held)


def _runs(batch: pa.RecordBatch, ids: Sequence[str]) -> Iterator[tuple[_Home, int, int]]:
    """Ranges [start, stop) of consecutive rows in one fragment."""
    partitions = batch.column(PARTITION_COLUMN) if PARTITION_COLUMN in ids else None
    for name in ids:
        if batch.column(name).null_count:
            raise InvalidInputError(f"a row has no {name}, so it cannot be told which row of the table it is for")
    fragments, _ = split_addresses(batch.column(ROW_ADDRESS).to_numpy().view(np.uint64))
    changes = np.diff(fragments) != 0
    if partitions is not None:
        changes |= pc.not_equal(partitions[1:], partitions[:-1]).to_numpy(zero_copy_only=False)
    starts: Sequence[int] = [0, *(np.flatnonzero(changes) + 1).tolist()] if batch.num_rows else []
    for start, stop in pairwise([*starts, batch.num_rows]):
        yield (None if partitions is None else partitions[start].as_py(), int(fragments[start])), start, stop


def _addresses(rows: pa.Table) -> UInt64Array:
    addresses: UInt64Array = rows.column(ROW_ADDRESS).to_numpy().view(np.uint64)
    return addresses
