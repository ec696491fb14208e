"""The rows of a version for training: each of several shards reads its part, in an order that can be repeated.

Rows are drawn in two steps. The table is cut into pieces of consecutive rows of a fragment, which are put into a random
order; then `window_rows` rows of consecutive pieces are read together and put into a random order. So files are read
in ranges, and memory holds one window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.table.reading.blobs.binary_scan import BINARY, BlobForm
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.named_columns import check_distinct, may_name_fields, named_paths, picked
from lance_spark.table.reading.read_verbs import ReadVerbs
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.reading.shown_types import shown_batches

DEFAULT_WINDOW_ROWS = 16384
_PIECES = 16
"""Pieces of a window: rows of this many places of the table are mixed."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several readers that share the rows of a table.

    Attributes:
        index: of the reader, from 0.
        count: of readers.
    """

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.index < self.count:
            raise InvalidInputError(f"there is no shard {self.index} of {self.count}; they count from 0")


@dataclass(frozen=True, slots=True)
class Position:
    """The next row of a shard.

    Attributes:
        window: its window.
        row: its place within the rows of the window.
    """

    window: int = 0
    row: int = 0


@dataclass(frozen=True)
class ShardPlan:
    """Scan, order and batches that all shards have in common.

    Attributes:
        columns, filter: as in `scan`.
        batch_size: rows of a batch.
        shuffle: whether the rows are in a random order, else in the order of the table.
        seed: of the random order.
        window_rows: rows that are read, and shuffled, together.
        equal: all shards read the same number of rows; up to ``count - 1`` rows are left out.
        drop_last: leaves out the rows at the end that do not fill a batch.
        blob_handling: as in `scan`; None: the bytes.
    """

    columns: Sequence[str] | None = None
    filter: str | Expr | None = None
    batch_size: int = 1024
    shuffle: bool = False
    seed: int = 0
    window_rows: int = DEFAULT_WINDOW_ROWS
    equal: bool = False
    drop_last: bool = False
    blob_handling: str | None = None

    def __post_init__(self) -> None:
        for name, number in (("batch_size", self.batch_size), ("window_rows", self.window_rows)):
            if type(number) is not int or number < 1:
                raise InvalidInputError(f"{name} is {number!r}; it must be at least 1")
        if type(self.seed) is not int or self.seed < 0:
            raise InvalidInputError(f"seed is {self.seed!r}; it must be a number from 0")
        if self.equal and self.filter is not None:
            raise InvalidInputError(
                "equal shards with a filter: rows that match are known only when they are read; leave out one of them"
            )


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a fragment, counted with deleted ones: [start, stop)."""

    part: int
    fragment: int
    start: int
    stop: int
    num_rows: int


class ShardRows:
    """The rows of one shard in one epoch, as batches.

    Args:
        table: the version.
        epoch: another one gives another random order.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an invalid filter, or a column that is named twice.
    """

    def __init__(self, table: ReadVerbs, plan: ShardPlan, shard: Shard = Shard(), epoch: int = 0) -> None:  # noqa: B008
        self._plan = plan
        self._shard = shard
        self._epoch = epoch
        self._table = table
        self._blobs = (plan.blob_handling or BINARY, False)
        self._changes_blobs = table.changes_blobs(self._blobs)
        check_distinct(plan.columns)
        self._paths = (
            named_paths(plan.columns, table.stored_schema)
            if plan.columns is not None and may_name_fields(plan.columns)
            else None
        )
        self._nothing, self._parts = table.plan_parts(plan.columns, plan.filter, with_blob_bytes=self._changes_blobs)

    def batches(self, position: Position = Position()) -> Iterator[tuple[pa.RecordBatch, Position]]:  # noqa: B008
        """The batches from a row on, each with the position of the row after it."""
        size, held = self._plan.batch_size, 0
        kept: list[pa.Table] = []
        form = self._table.blob_form(self._parts, self._blobs) if self._changes_blobs else None
        for number in range(position.window, len(self._windows)):
            rows = self._read(number)
            first = position.row if number == position.window else 0
            while first < rows.num_rows:
                taken = rows.slice(first, size - held)
                kept.append(taken)
                first, held = first + taken.num_rows, held + taken.num_rows
                if held == size:
                    yield self._batch(kept, form), Position(number, first)
                    kept, held = [], 0
        if held and not self._plan.drop_last:
            yield self._batch(kept, form), Position(len(self._windows), 0)

    def _batch(self, tables: Sequence[pa.Table], form: BlobForm | None) -> pa.RecordBatch:
        table = pa.concat_tables(tables).combine_chunks()
        columns = [column.chunk(0) for column in table.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=table.schema)
        rows = iter([batch]) if form is None else form.batches([batch])
        paths = self._paths
        parts = list(shown_batches(rows if paths is None else (picked(each, paths) for each in rows)))
        return parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def _read(self, number: int) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        for piece in self._windows[number]:
            scan, manifest = self._parts[piece.part]
            fragment = manifest.fragments[piece.fragment]
            batches += scan.read([FragmentRows(fragment, start=piece.start, stop=piece.stop)])
        table = pa.Table.from_batches(batches, schema=self._nothing.arrow_schema)
        if not self._plan.shuffle:
            return table
        order = self._random(1, self._shard.index, self._shard.count, number).permutation(table.num_rows)
        columns = [take_chunked(column, order) for column in table.columns]
        return pa.Table.from_arrays(columns, schema=table.schema)

    def _random(self, *numbers: int) -> np.random.Generator:
        return np.random.default_rng([self._plan.seed, self._epoch, *numbers])

    @cached_property
    def _windows(self) -> list[list[_Piece]]:
        """The pieces of this shard, in the order in which they are read, by window."""
        windows: list[list[_Piece]] = []
        filled = self._plan.window_rows
        for piece in self._own_pieces():
            if filled >= self._plan.window_rows:
                windows.append([])
                filled = 0
            windows[-1].append(piece)
            filled += piece.num_rows
        return windows

    def _own_pieces(self) -> Iterator[_Piece]:
        pieces = list(self._pieces())
        if self._plan.shuffle:
            pieces = [pieces[place] for place in self._random(0).permutation(len(pieces))]
        total = sum(piece.num_rows for piece in pieces)
        index, count = self._shard.index, self._shard.count
        if self._plan.equal:
            begin, end = total // count * index, total // count * (index + 1)
        else:
            begin, end = total * index // count, total * (index + 1) // count
        first = 0
        for piece in pieces:
            after = first + piece.num_rows
            if first >= begin and after <= end:
                yield piece
            elif after > begin and first < end:
                yield self._cut(piece, max(begin - first, 0), min(end, after) - first)
            first = after

    def _pieces(self) -> Iterator[_Piece]:
        size = max(1, self._plan.window_rows // _PIECES) if self._plan.shuffle else self._plan.window_rows
        for number, (scan, manifest) in enumerate(self._parts):
            for place in range(len(manifest.fragments)):
                reader = FragmentReader(manifest.fragments[place], scan.bases)
                deleted = reader.deletions.offsets
                starts = np.arange(0, reader.num_rows, size)
                stops = np.minimum(starts + size, reader.num_rows)
                lost = np.searchsorted(deleted, stops) - np.searchsorted(deleted, starts)
                for start, stop, num_deleted in zip(starts.tolist(), stops.tolist(), lost.tolist(), strict=True):
                    if stop - start > num_deleted:
                        yield _Piece(number, place, start, stop, stop - start - num_deleted)

    def _cut(self, piece: _Piece, first: int, last: int) -> _Piece:
        """The rows [first, last) of `piece`, counted without deleted ones."""
        scan, manifest = self._parts[piece.part]
        deleted = FragmentReader(manifest.fragments[piece.fragment], scan.bases).deletions.offsets
        live = np.setdiff1d(np.arange(piece.start, piece.stop), deleted)
        start = int(live[first])
        stop = int(live[last]) if last < len(live) else piece.stop
        return replace(piece, start=start, stop=stop, num_rows=last - first)
