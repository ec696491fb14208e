"""Rows by position."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.expr.values import no_rows
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import order_within
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.table.reading.blobs.binary_scan import BlobForm
from lance_spark.table.reading.decoding.rows import no_columns
from lance_spark.table.reading.decoding.single_rows import RowsOfFragment, SingleRowColumns
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import FragmentList

_FEW_POSITIONS = 4096
"""So few are read in their order, without being sorted."""


class Take:
    """Rows by their positions among the rows of several tables after each other.

    What does not depend on the positions is found once: with cold caches that takes as long as to copy the rows.

    Args:
        scan: what is read of each table; it has no filter.
        parts: the same scan for each table, and its fragments.
        form: that of blobs in the result; None for the form in which they are read.

    Attributes:
        shows_other_types: whether users see other values than the stored ones.
    """

    def __init__(self, scan: Scan, parts: Sequence[tuple[Scan, FragmentList]], form: BlobForm | None = None) -> None:
        self._scan = scan
        self._form = form
        self._parts = parts
        self._ends = [bound.row_ends(fragments) for bound, fragments in parts]
        self._part_ends = np.cumsum([rows[-1] if len(rows) else 0 for rows in self._ends], dtype=np.int64)
        self._num_rows = int(self._part_ends[-1]) if parts else 0
        self._schema = scan.arrow_schema
        self.shows_other_types = scan.shows_other_types
        self._copied = parts[0][0].single_rows if len(parts) == 1 else None
        # Columns of the only fragment need no look at where a row is.
        is_one = self._copied is not None and self._num_rows > 0 and len(self._ends[0]) == 1
        self._only = parts[0][1][0] if is_one else None

    def rows(self, indices: Sequence[int]) -> pa.Table:
        """The rows at `indices`, in that order, duplicates included.

        Raises:
            InvalidInputError: no such row.
        """
        rows = self._read(indices)
        return rows if self._form is None else self._form.table(rows)

    def _read(self, indices: Sequence[int]) -> pa.Table:
        positions = _positions(indices)
        num_rows = len(positions)
        order = order_within(address_of(positions), num_rows, self._num_rows)
        if order < 0:
            raise _no_such_row(positions, self._num_rows)
        if self._copied is not None and self._copied.can_read(num_rows, 1) and num_rows <= _FEW_POSITIONS:
            wanted = self._wanted(self._copied, positions)
            columns = None if wanted is None else self._copied.read(wanted, num_rows)
            if columns is not None:
                return pa.Table.from_arrays(columns, schema=self._schema)
        if not self._scan.output:
            return pa.Table.from_batches([no_columns(num_rows)])
        if num_rows == 0:
            return pa.Table.from_batches([no_rows(self._schema)])
        return self._many(positions, is_ascending=bool(order))

    def _wanted(self, copied: SingleRowColumns, positions: Int64Array) -> list[RowsOfFragment] | None:
        """The rows at `positions` of the one table; None if they are in more fragments than are copied from."""
        if self._only is not None:
            return [copied.live_rows(self._only, positions, None)]
        fragments, ends = self._parts[0][1], self._ends[0]
        owners = ends.searchsorted(positions, side="right")
        found = set(owners.tolist())
        if not copied.can_read(len(positions), len(found)):
            return None
        wanted: list[RowsOfFragment] = []
        for owner in found:
            (places,) = (owners == owner).nonzero()
            inside = positions[places] - (int(ends[owner - 1]) if owner else 0)
            wanted.append(copied.live_rows(fragments[owner], inside, places))
        return wanted

    def _many(self, positions: Int64Array, *, is_ascending: bool) -> pa.Table:
        """The rows, decoded by scans."""
        ascending, order = (positions, None) if is_ascending else np.unique(positions, return_inverse=True)
        tables = []
        for part, of_part in _by_owner(ascending, self._part_ends):
            bound, fragments = self._parts[part]
            inside = [(fragments[place], rows) for place, rows in _by_owner(of_part, self._ends[part])]
            tables.append(bound.as_decoded.read_table(bound.version.live_rows(inside)))
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if order is None:
            return rows
        columns = [take_chunked(column, order) for column in rows.columns]
        return pa.Table.from_arrays(columns, schema=rows.schema)


def _no_such_row(positions: Int64Array, num_rows: int) -> InvalidInputError:
    outside = int(positions[(positions < 0) | (positions >= num_rows)][0])
    return InvalidInputError(f"there is no row {outside}; the table has {num_rows} rows, counted from 0")


def _by_owner(wanted: Int64Array, ends: Int64Array) -> list[tuple[int, Int64Array]]:
    """(index of the piece, those of `wanted` in it, counted from its first row) of pieces of rows with these `ends`.

    `wanted` ascend and are in the pieces; there is at least one.
    """
    if len(ends) == 1:
        return [(0, wanted)]
    owners = np.searchsorted(ends, wanted, side="right")
    opens = [0, *(np.flatnonzero(owners[1:] != owners[:-1]) + 1).tolist(), len(wanted)]
    return [
        (owner, wanted[start:stop] - (int(ends[owner - 1]) if owner else 0))
        for owner, (start, stop) in zip(owners[opens[:-1]].tolist(), pairwise(opens), strict=True)
    ]


def _packed(numbers: list[int]) -> Int64Array | None:
    """int64[n] in a third of the time that numpy takes; None if one is no whole number, or too large."""
    try:
        return np.frombuffer(struct.pack(f"{len(numbers)}q", *numbers), np.int64)
    except struct.error:
        return None


def _positions(indices: Sequence[int]) -> Int64Array:
    try:
        if type(indices) is list and indices and type(indices[0]) is int and (packed := _packed(indices)) is not None:
            return packed
        positions = np.asarray(indices)
        if positions.size == 0:
            return np.empty(0, np.int64)
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise InvalidInputError("row positions are whole numbers")
        if positions.dtype.kind == "u" and int(positions.max()) >= 1 << 63:
            raise InvalidInputError(f"there is no row {int(positions.max())}")
        return positions.astype(np.int64)
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidInputError(f"row positions are whole numbers: {error}") from error
