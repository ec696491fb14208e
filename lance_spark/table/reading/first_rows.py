"""The first rows of fragments in some order: ORDER BY with LIMIT inside of a scan.

It reads the columns of the order with the address of each row, keeps the best addresses, and reads the other columns
for these alone. Of several keys it reads the first one alone, and the others for rows that this one leaves, unless it
leaves too many: for them all keys are read together.

Spark's order, which Arrow's differs from: nulls are first or last per key, and NaN is greater than every number. So a
key becomes up to three columns: whether it is null, whether it is NaN, and the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.expr.columns import column_values
from lance_spark.expr.values import plain
from lance_spark.index.vector.sql_distance import SqlDistance
from lance_spark.schema.projection import project
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import UInt64Array

_KEPT_AT_LEAST = 1 << 16
_KEY_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to order by, spelled as in the table.

    Attributes:
        distance: of the vectors of the column, by which rows are ordered; None orders by the values of the column.
    """

    path: tuple[str, ...]
    descending: bool
    nulls_first: bool
    distance: SqlDistance | None = None


@dataclass(frozen=True)
class FirstRows:
    """Finds the first rows of fragments of one split.

    Attributes:
        scan: what to read, filter included; it is bound to the split.
        keys: the order.
        limit: how many rows.
    """

    scan: Scan
    keys: tuple[SortKey, ...]
    limit: int

    def of(self, slices: Sequence[FragmentRows]) -> Iterator[pa.RecordBatch]:
        """The first rows of `slices`, in no order."""
        yield from self.scan.without_filter.read(_rows_at(slices, self._best(slices)))

    def _best(self, slices: Sequence[FragmentRows]) -> UInt64Array:
        """Addresses of the first rows."""
        if len(self.keys) > 1:
            candidates = replace(self, keys=self.keys[:1])._candidates(slices)
            if candidates is not None:
                return self._addresses_of_first(self._looked_up(slices, candidates))
        kept: list[pa.RecordBatch] = []
        num_rows = 0
        for batch in self._key_batches(slices):
            kept.append(self._sortable(batch))
            num_rows += batch.num_rows
            if num_rows > self._most_kept():
                kept = self._first(kept).to_batches()
                num_rows = self.limit
        return self._addresses_of_first(kept)

    def _candidates(self, slices: Sequence[FragmentRows]) -> UInt64Array | None:
        """Addresses of the first rows by the only key, and of all that are equal to the last one; None: too many."""
        kept: list[pa.RecordBatch] = []
        worst: pa.Table | None = None
        for batch in self._key_batches(slices):
            kept.append(self._not_worse(self._sortable(batch), worst))
            if sum(item.num_rows for item in kept) > self._most_kept():
                worst = self._first(kept)[self.limit - 1 :]
                kept = [self._not_worse(item, worst) for item in kept]
                if sum(item.num_rows for item in kept) > self._most_kept() // 2:
                    return None
        if sum(item.num_rows for item in kept) > self.limit:
            worst = self._first(kept)[self.limit - 1 :]
            kept = [self._not_worse(item, worst) for item in kept]
        return np.concatenate([np.zeros(0, np.uint64), *(item.column(ROW_ADDRESS).to_numpy() for item in kept)])

    def _not_worse(self, rows: pa.RecordBatch, worst: pa.Table | None) -> pa.RecordBatch:
        """The `rows` that are before the only row of `worst` by the first key, or equal to it."""
        if worst is None or not worst.num_rows:
            return rows
        key, values = self.keys[0], rows.column("value0")
        null, nan = rows.column("null0"), rows.column("nan0") if "nan0" in rows.schema.names else None
        if worst["null0"][0].as_py():
            return rows.filter(pc.equal(null, 1)) if key.nulls_first else rows
        if nan is not None and worst["nan0"][0].as_py():
            kept = pc.equal(nan, 1) if key.descending else pc.equal(null, 0)
        else:
            compare = pc.greater_equal if key.descending else pc.less_equal
            kept = pc.fill_null(compare(values, worst["value0"][0]), False)
            if nan is not None and key.descending:
                kept = pc.or_(kept, pc.equal(nan, 1))
        return rows.filter(pc.or_(kept, pc.equal(null, 1)) if key.nulls_first else kept)

    def _looked_up(self, slices: Sequence[FragmentRows], addresses: UInt64Array) -> list[pa.RecordBatch]:
        """The keys of some rows."""
        return list(map(self._sortable, self._key_scan().without_filter.read(_rows_at(slices, addresses))))

    def _most_kept(self) -> int:
        return max(_KEPT_AT_LEAST, 4 * self.limit)

    def _key_batches(self, slices: Sequence[FragmentRows]) -> Iterator[pa.RecordBatch]:
        yield from self._key_scan().read(slices)

    def _key_scan(self) -> Scan:
        paths = [key.path for key in self.keys]
        projection = project(self.scan.schema, paths)
        output = (*(field.name for field in projection.fields), ROW_ADDRESS)
        return replace(self.scan.returning(projection, output), batch_rows=_KEY_BATCH_ROWS)

    def _sortable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = _sort_columns(batch, self.keys)
        columns[ROW_ADDRESS] = batch.column(batch.num_columns - 1)
        return pa.RecordBatch.from_pydict(columns)

    def _addresses_of_first(self, kept: list[pa.RecordBatch]) -> UInt64Array:
        found: UInt64Array = self._first(kept)[ROW_ADDRESS].to_numpy() if kept else np.zeros(0, np.uint64)
        return found

    def _first(self, kept: list[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(kept)
        return table.take(_sorted_places(table, self.keys)[: self.limit])


def _rows_at(slices: Sequence[FragmentRows], addresses: UInt64Array) -> list[FragmentRows]:
    """The rows at addresses of fragments that have slices, by fragment."""
    fragments = {rows.fragment.id: rows.fragment for rows in slices}
    return [FragmentRows(fragments[number], offsets) for number, offsets in by_fragment(np.sort(addresses))]


def first_rows(rows: pa.Table, keys: Sequence[SortKey], most: int | None) -> pa.Table:
    """The first `most` rows in the order of the keys, all for None; equal ones in the order that they have."""
    columns = [_sort_columns(batch, keys) for batch in rows.to_batches()]
    if not columns:
        return rows
    sortable = pa.Table.from_batches([pa.RecordBatch.from_pydict(each) for each in columns])
    return rows.take(_sorted_places(sortable, keys)[:most])


def _sort_columns(batch: pa.RecordBatch, keys: Sequence[SortKey]) -> dict[str, pa.Array]:
    """The columns by which Arrow sorts: of key i `null{i}`, `nan{i}` if there may be any, and `value{i}`."""
    columns: dict[str, pa.Array] = {}
    for index, key in enumerate(keys):
        found = column_values(batch, key.path)
        values = plain(found) if key.distance is None else key.distance.values(found)
        null = values.is_null()
        columns[f"null{index}"] = null.cast(pa.int8())
        if pt.is_floating(values.type):
            nan = pc.fill_null(pc.is_nan(values), False)
            columns[f"nan{index}"] = nan.cast(pa.int8())
            values = pc.if_else(nan, None, values)
        columns[f"value{index}"] = values
    return columns


def _sorted_places(sortable: pa.Table, keys: Sequence[SortKey]) -> pa.Array:
    order = []
    for index, key in enumerate(keys):
        direction = "descending" if key.descending else "ascending"
        order.append((f"null{index}", "descending" if key.nulls_first else "ascending"))
        if f"nan{index}" in sortable.column_names:
            order.append((f"nan{index}", direction))
        order.append((f"value{index}", direction))
    return pc.sort_indices(sortable, sort_keys=order)
