"""Rows in the order of a layout, in bounded memory.

Rows that take little memory are sorted at once. More are first divided by sampled bounds of the order into pieces,
which wait in a temporary file; each is sorted alone. Rows equal to several bounds are spread over the pieces between
them, so that a frequent value does not make a piece that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.builders.spill import SpilledParts
from lance_spark.table.maintenance.clustering.keys import (
    SAMPLE_ROWS,
    CurveKeys,
    key_table,
    sampled,
    sorted_places,
)
from lance_spark.table.maintenance.clustering.layout import Layout

PIECE_BYTES = 128 << 20
_CHUNK_BYTES = 32 << 20

Batches = Iterator[pa.RecordBatch]


def inverse(order: Int64Array) -> Int64Array:
    """int64[n]: the place of each number in a permutation.

    >>> inverse(np.array([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


@dataclass
class SortedRows:
    """Rows in the order of a layout.

    Args:
        layout: the order.
        num_rows: how many rows there are.
        keys: reads the columns of the keys, for the sample.
        rows: reads the rows with all columns, in the same order.

    Attributes:
        order: int64[n]: which row came, counted as they were read, by the place where it is now; complete once all
            batches were taken.
    """

    layout: Layout
    num_rows: int
    keys: Callable[[], Batches]
    rows: Callable[[], Batches]
    batch_rows: int
    piece_bytes: int = field(default_factory=lambda: PIECE_BYTES)
    _taken: list[Int64Array] = field(default_factory=list)

    @property
    def order(self) -> Int64Array:
        return np.concatenate([np.empty(0, np.int64), *self._taken])

    def batches(self) -> Iterator[tuple[pa.RecordBatch, Int64Array]]:
        """The rows in order, each batch with the rows of `order` that it has."""
        sample = self._sample()
        curve = None if self.layout.is_exact else CurveKeys.of(self.layout, sample)
        order = _Order(self.layout, curve)
        for piece in self._pieces(order, sample):
            rows = pa.Table.from_batches(piece)
            places = order.sorted_places(rows.select(rows.column_names[:-1]))
            positions = rows.column(rows.num_columns - 1).to_numpy()
            rows = rows.select(list(range(rows.num_columns - 1)))
            for start in range(0, len(places), self.batch_rows):
                part = places[start : start + self.batch_rows]
                taken = positions[part]
                self._taken.append(taken)
                (batch,) = rows.take(pa.array(part)).combine_chunks().to_batches()
                yield batch, taken

    def _sample(self) -> pa.Table:
        step = max(1, self.num_rows // SAMPLE_ROWS)
        tables, before = [], 0
        for batch in self.keys():
            chosen = np.arange(-before % step, batch.num_rows, step)
            tables.append(key_table(self.layout, batch.take(pa.array(chosen))))
            before += batch.num_rows
        return sampled(tables)

    def _pieces(self, order: _Order, sample: pa.Table) -> Iterator[list[pa.RecordBatch]]:
        """The pieces in their order, with the numbers of the rows as the last column."""
        waiting: list[pa.RecordBatch] = []
        num_bytes = 0
        batches = self._numbered()
        for batch in batches:
            waiting.append(batch)
            num_bytes += batch.nbytes
            if num_bytes > self.piece_bytes:
                break
        else:
            if waiting:
                yield waiting
            return
        rows = sum(batch.num_rows for batch in waiting)
        num_pieces = 1 + 2 * num_bytes * self.num_rows // (rows * self.piece_bytes)
        with closing(_Divided(order.bounds(sample, num_pieces), order)) as divided:
            while waiting:
                divided.add(waiting)
                waiting, num_bytes = [], 0
                for batch in batches:
                    waiting.append(batch)
                    num_bytes += batch.nbytes
                    if num_bytes > _CHUNK_BYTES:
                        break
            yield from divided.pieces()

    def _numbered(self) -> Batches:
        first = 0
        for batch in self.rows():
            numbers = pa.array(np.arange(first, first + batch.num_rows))
            columns = [*batch.columns, numbers]
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema.append(pa.field("", numbers.type)))
            first += batch.num_rows


@dataclass(frozen=True, slots=True)
class _Order:
    """Comparison of rows: by the values of keys, or by places on a curve."""

    layout: Layout
    curve: CurveKeys | None

    def sorted_places(self, rows: pa.Table) -> Int64Array:
        """int64[n]: the rows in order."""
        return self._sorted(key_table(self.layout, rows))

    def bounds(self, sample: pa.Table, num_pieces: int) -> pa.Table:
        """Rows of the sample, in order, between which pieces lie."""
        places = self._sorted(sample)
        return sample.take(pa.array(places[np.arange(1, num_pieces) * len(places) // num_pieces]))

    def _sorted(self, keys: pa.Table) -> Int64Array:
        if self.curve is None:
            return sorted_places(self.layout, keys)
        return np.argsort(self.curve.places(keys), kind="stable").astype(np.int64)

    def pieces(self, bounds: pa.Table, keys: pa.Table) -> tuple[Int64Array, Int64Array]:
        """(int64[n]: the first piece that each row may be in, int64[n]: the last one)."""
        if self.curve is not None:
            ends, values = self.curve.places(bounds), self.curve.places(keys)
            sides = (np.searchsorted(ends, values), np.searchsorted(ends, values, side="right"))
            return sides[0].astype(np.int64), sides[1].astype(np.int64)
        both = pa.concat_tables([keys, bounds]), pa.concat_tables([bounds, keys])
        return self._counts(both[0], len(keys), 0), self._counts(both[1], 0, len(bounds))

    def _counts(self, both: pa.Table, num_first: int, num_bounds: int) -> Int64Array:
        """The number of bounds before each row of the keys; equal rows are in the order of `both`."""
        order = sorted_places(self.layout, both)
        is_bound = order >= num_first if num_first else order < num_bounds
        counts = np.empty(int((~is_bound).sum()), np.int64)
        counts[order[~is_bound] - num_bounds] = np.cumsum(is_bound)[~is_bound]
        return counts


class _Divided:
    """Rows in pieces, most of them in a temporary file."""

    def __init__(self, bounds: pa.Table, order: _Order) -> None:
        self._bounds = bounds
        self._order = order
        self._parts = SpilledParts()
        self._numbers: list[int] = []

    def add(self, batches: list[pa.RecordBatch]) -> None:
        rows = pa.Table.from_batches(batches)
        keys = key_table(self._order.layout, rows.select(rows.column_names[:-1]))
        first, last = self._order.pieces(self._bounds, keys)
        positions = rows.column(rows.num_columns - 1).to_numpy()
        numbers = first + positions % (last - first + 1)
        places = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[places], np.arange(len(self._bounds) + 2))
        for piece in range(len(self._bounds) + 1):
            chosen = places[ends[piece] : ends[piece + 1]]
            if len(chosen):
                for part in rows.take(pa.array(chosen)).combine_chunks().to_batches():
                    self._parts.add(part)
                    self._numbers.append(piece)

    def pieces(self) -> Iterator[list[pa.RecordBatch]]:
        parts = self._parts.opened()
        for piece in range(len(self._bounds) + 1):
            chosen = [part for part, number in zip(parts, self._numbers, strict=True) if number == piece]
            if chosen:
                yield chosen

    def close(self) -> None:
        self._parts.close()
