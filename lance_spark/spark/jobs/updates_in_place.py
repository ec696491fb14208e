"""Updated rows of a task, fragment by fragment: new files of the changed columns, or complete rows that move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.errors import StorageError
from lance_spark.spark.jobs.original_values import read_rows
from lance_spark.spark.types.values import from_spark_batch
from lance_spark.table.row_level.column_updates import ColumnUpdate, ColumnUpdater
from lance_spark.table.row_level.row_writer import RowOrigins, RowWriter
from lance_spark.table.rows.row_address import UInt64Array, split_addresses
from lance_spark.table.source import Split
from lance_spark.table.writing.filled_columns import BackfilledSplit

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class UpdatesInPlace:
    """Plan for the updated rows of a statement; small, because every task gets it.

    Attributes:
        update: the columns that these rows have, and when they get new files.
        complete: all columns of the table, in the types in which they are written.
    """

    update: ColumnUpdate
    complete: pa.Schema

    @property
    def changed(self) -> pa.Schema:
        """The columns of updated rows."""
        return pa.schema([self.complete.field(name) for name in self.update.written.names()])


class FragmentUpdates:
    """Gathers the updated rows of each fragment and writes them. Rows come sorted by split and address.

    A context manager: an error inside removes the new files of columns.

    Args:
        open_split: opens the split with a key.
        writer: of rows that move after all.
        moved: called with the key and the addresses of these.
    """

    def __init__(
        self,
        plan: UpdatesInPlace,
        open_split: Callable[[str | None], Split],
        writer: RowWriter,
        moved: Callable[[str | None, UInt64Array], None],
    ) -> None:
        self._plan = plan
        self._open_split = open_split
        self._writer = writer
        self._moved = moved
        self._updater = ColumnUpdater(plan.update)
        self._place: tuple[str | None, int] | None = None
        self._done: set[tuple[str | None, int]] = set()
        self._addresses: list[UInt64Array] = []
        self._rows: list[pa.RecordBatch] = []

    def add(self, key: str | None, addresses: UInt64Array, rows: pa.RecordBatch) -> None:
        """Adds rows of one split.

        Args:
            addresses: uint64[n], ascending.
            rows: n rows, with the columns that change and maybe more, as Spark hands them over.

        Raises:
            StorageError: rows of a fragment come apart from each other, or the store failed.
            InvalidInputError: a value does not fit its column.
        """
        changed = from_spark_batch(rows.select(self._plan.changed.names), self._plan.changed)
        fragment_ids = split_addresses(addresses)[0]
        cuts = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist(), len(addresses)]
        for start, stop in pairwise(cuts):
            place = key, int(fragment_ids[start])
            if place != self._place:
                self._finish()
                if place in self._done:
                    raise StorageError(f"rows of fragment {place[1]} came to a task in several parts; run it again")
                self._place = place
                self._done.add(place)
            self._addresses.append(addresses[start:stop])
            self._rows.append(changed.slice(start, stop - start))

    def close(self) -> tuple[BackfilledSplit, ...]:
        """The files with new values of columns. Raises as `add`."""
        self._finish()
        return tuple(self._updater.written)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        self._updater.__exit__(kind, error, traceback)

    def _finish(self) -> None:
        if self._place is None:
            return
        key, fragment_id = self._place
        addresses, rows = np.concatenate(self._addresses), pa.Table.from_batches(self._rows)
        self._place, self._addresses, self._rows = None, [], []
        split = self._open_split(key)
        fragment = split.manifest.fragments.with_id(fragment_id)
        if self._plan.update.saves(split, fragment, len(addresses)):
            self._updater.write(split, fragment, addresses, rows)
            return
        names = [name for name in self._plan.complete.names if name not in rows.column_names]
        start = 0
        for batch in rows.to_batches():
            part = addresses[start : start + batch.num_rows]
            start += batch.num_rows
            others = read_rows(split.table, split.manifest, part, names)
            columns = dict(zip((*batch.schema.names, *names), (*batch.columns, *others.columns), strict=True))
            whole = [columns[name] for name in self._plan.complete.names]
            self._writer.write(
                pa.RecordBatch.from_arrays(whole, names=self._plan.complete.names), RowOrigins.of_split(split, part)
            )
        self._moved(key, addresses)
