"""Sorting more values than fit into memory: parts are sorted as they come and put into a temporary file, then merged.

The merge takes pieces from the starts of all parts, a block of each. A piece ends with the least of the last values of
these blocks: whatever comes later in a part is not less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.index.builders.base import IndexedRows, UInt64Array
from lance_spark.index.builders.sorting import comparable, num_before, sort_order
from lance_spark.index.builders.spill import SpilledParts

_ONE_SORT_ROWS = 1 << 20
_ONE_SORT_BYTES = 32 << 20
"""Up to this many rows and bytes of values are sorted at once, which takes less time than a merge."""

_RUN_ROWS = 1 << 18
_RUN_BYTES = 16 << 20
"""Rows, and bytes of values, of a part. Up to twice as much is merged at a time."""

_FIELDS = ("values", "ids")


class SortedRows:
    """Rows in the order of an index: nulls first, then ascending; equal values in the order in which they were added.

    Args:
        dtype: the type of the values.
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self._dtype = dtype
        self._waiting: list[tuple[pa.Array, UInt64Array]] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._null_ids: list[UInt64Array] = []
        self._runs = SpilledParts()

    def add(self, rows: IndexedRows) -> None:
        """Adds rows in any order."""
        self._waiting.append((rows.values, rows.ids))
        self._waiting_rows += len(rows.ids)
        self._waiting_bytes += rows.values.nbytes
        if self._waiting_rows > _ONE_SORT_ROWS or self._waiting_bytes > _ONE_SORT_BYTES:
            self._sort(_rows_of_part(self._waiting_rows, self._waiting_bytes))

    def pieces(self) -> Iterator[tuple[pa.Array, UInt64Array]]:
        """All rows, piece by piece: values, and ids uint64[n]. Nothing can be added then."""
        self._sort(self._waiting_rows)
        for ids in self._null_ids:
            yield pa.nulls(len(ids), self._dtype), ids
        runs = self._runs.opened()
        if len(runs) == 1:
            yield _columns(runs[0])
        elif runs:
            yield from _merged(runs)

    def close(self) -> None:
        """Removes the file."""
        self._runs.close()

    def _sort(self, run_rows: int) -> None:
        """Makes parts of the rows that wait, of `run_rows` each."""
        if not self._waiting_rows:
            return
        values = pa.concat_arrays([values for values, _ in self._waiting])
        ids = np.concatenate([ids for _, ids in self._waiting])
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        if values.null_count:
            known = values.is_valid().to_numpy(zero_copy_only=False)
            self._null_ids.append(ids[~known])
            values, ids = values.drop_null(), ids[known]
        for start in range(0, len(ids), run_rows):
            self._runs.add(_sorted(values.slice(start, run_rows), ids[start : start + run_rows]))


def _rows_of_part(num_rows: int, num_bytes: int) -> int:
    """Number of rows of a part, for rows of which `num_rows` have `num_bytes` bytes."""
    return max(1, min(_RUN_ROWS, num_rows * _RUN_BYTES // max(num_bytes, 1)))


def _sorted(values: pa.Array, ids: UInt64Array) -> pa.RecordBatch:
    order = sort_order(values)
    return pa.record_batch([values.take(pa.array(order)), pa.array(ids[order])], list(_FIELDS))


def _columns(run: pa.RecordBatch) -> tuple[pa.Array, UInt64Array]:
    return run.column(0), run.column(1).to_numpy()


def _merged(runs: Sequence[pa.RecordBatch]) -> Iterator[tuple[pa.Array, UInt64Array]]:
    """The rows of several sorted parts in order."""
    part_rows = _rows_of_part(sum(run.num_rows for run in runs), sum(run.nbytes for run in runs))
    while runs:
        step = max(1, 2 * part_rows // len(runs))
        blocks = [run.column(0).slice(0, step) for run in runs]
        ends = [comparable(block, len(block) - 1) for block in blocks]
        # Rows equal to the bound belong to this piece in the parts up to that of the bound, to a later one in others.
        least = min(range(len(runs)), key=ends.__getitem__)
        counts = [num_before(block, ends[least], and_equal=place <= least) for place, block in enumerate(blocks)]
        parts = [_columns(run.slice(0, count)) for run, count in zip(runs, counts, strict=True) if count]
        values, ids = pa.concat_arrays([part for part, _ in parts]), np.concatenate([part for _, part in parts])
        yield (values, ids) if len(parts) == 1 else _columns(_sorted(values, ids))
        runs = [run.slice(count) for run, count in zip(runs, counts, strict=True) if count < run.num_rows]
