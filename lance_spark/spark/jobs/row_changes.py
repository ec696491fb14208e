"""Changes of rows as the tasks of a DELETE, UPDATE or MERGE get them: one change a row, evaluated by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN
from lance_spark.table.rows.row_address import UInt64Array

BoolArray = npt.NDArray[np.bool_]


class ChangeKind(IntEnum):
    """Kind of a row change; the connector's jar puts these numbers into the first column."""

    DELETE = 0
    UPDATE = 1
    INSERT = 2


@dataclass(frozen=True, slots=True)
class RowIds:
    """Which rows of the table rows are, in the version that was read.

    Attributes:
        keys: the key of the split that each is in; None in a plain table, which has one split.
        addresses: uint64[n]: the address in that split, `NO_ORIGIN` for a new row.
    """

    keys: pa.Array | None
    addresses: UInt64Array

    def where(self, chosen: BoolArray) -> RowIds:
        """The ids of the rows for which `chosen` is true."""
        keys = None if self.keys is None else self.keys.filter(pa.array(chosen))
        return RowIds(keys, self.addresses[chosen])

    def slice(self, start: int, length: int) -> RowIds:
        """The ids of `length` rows from `start` on."""
        keys = None if self.keys is None else self.keys.slice(start, length)
        return RowIds(keys, self.addresses[start : start + length])

    def by_split(self) -> Iterator[tuple[str | None, BoolArray]]:
        """Each split with rows, by its key, and bool[n]: which rows are in it; new rows are in none."""
        is_known: BoolArray = self.addresses != NO_ORIGIN
        if self.keys is None:
            if is_known.any():
                yield None, is_known
            return
        for key in self.keys.filter(pa.array(is_known)).unique().to_pylist():
            yield key, is_known & pc.fill_null(pc.equal(self.keys, key), False).to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Changes as a task gets them.

    Attributes:
        kinds: int8[n], of `ChangeKind`.
        ids: which rows are changed; new rows of an INSERT.
        rows: the rows that are written: one for each change but the DELETEs, in order, as Spark hands it over; None if
            there are none.
    """

    kinds: npt.NDArray[np.int8]
    ids: RowIds
    rows: pa.RecordBatch | None

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> RowChanges:
        """From a batch with columns kind, id and row, where id and row are structs.

        The last column of id is the row's address; before it comes the key of the split in a partitioned table.
        """
        kinds = batch.column("kind").to_numpy()
        ids = pa.RecordBatch.from_struct_array(batch.column("id"))
        # What stands in the ids of an INSERT has no meaning.
        addresses = ids.column(ids.num_columns - 1).fill_null(0).to_numpy().astype(np.uint64)
        addresses = np.where(kinds == ChangeKind.INSERT, np.uint64(NO_ORIGIN), addresses)
        row_ids = RowIds(ids.column(0) if ids.num_columns > 1 else None, addresses)
        rows = batch.column("row")
        is_written = kinds != ChangeKind.DELETE
        if not rows.type.num_fields or not is_written.any():
            return cls(kinds, row_ids, None)
        if not is_written.all():
            rows = rows.filter(pa.array(is_written))
        return cls(kinds, row_ids, pa.RecordBatch.from_struct_array(rows))

    @property
    def source_addresses(self) -> RowIds:
        """Which rows those in `rows` were."""
        return self.ids.where(self.kinds != ChangeKind.DELETE)
