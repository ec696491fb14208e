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
from lance_spark.table.row_level.write_target import RowOrigins

BoolArray = npt.NDArray[np.bool_]


class ChangeKind(IntEnum):
    """Kind of a row change; the connector's jar puts these numbers into the first column."""

    DELETE = 0
    UPDATE = 1
    INSERT = 2


def by_split(origins: RowOrigins) -> Iterator[tuple[str | None, BoolArray]]:
    """Each split with rows, by its key, and bool[n]: which rows are in it; new rows are in none."""
    is_known: BoolArray = origins.addresses != NO_ORIGIN
    if origins.keys is None:
        if is_known.any():
            yield None, is_known
        return
    for key in origins.keys.filter(pa.array(is_known)).unique().to_pylist():
        yield key, is_known & pc.fill_null(pc.equal(origins.keys, key), False).to_numpy(zero_copy_only=False)


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
    ids: RowOrigins
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
        row_ids = RowOrigins(ids.column(0) if ids.num_columns > 1 else None, addresses)
        rows = batch.column("row")
        is_written = kinds != ChangeKind.DELETE
        if not rows.type.num_fields or not is_written.any():
            return cls(kinds, row_ids, None)
        if not is_written.all():
            rows = rows.filter(pa.array(is_written))
        return cls(kinds, row_ids, pa.RecordBatch.from_struct_array(rows))

    @property
    def source_addresses(self) -> RowOrigins:
        """Which rows those in `rows` were."""
        return self.ids.where(self.kinds != ChangeKind.DELETE)
