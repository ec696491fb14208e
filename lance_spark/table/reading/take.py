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
from lance_spark.table.reading.decoding.rows import no_columns
from lance_spark.table.reading.decoding.single_rows import RowsOfFragment
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import FragmentList

_FEW_POSITIONS = 4096
"""So few are read in their order, without being sorted."""


def take_of_splits(scan: Scan, parts: Sequence[tuple[Scan, FragmentList]], indices: Sequence[int]) -> pa.Table:
    """The rows at `indices` of the rows of several tables after each other: in that order, duplicates included.

    Args:
        scan: what is read of each; it has no filter.
        parts: the same scan for each table, and its fragments.

    Raises:
        InvalidInputError: no such row.
    """
    positions = _positions(indices)
    ends = [bound.row_ends(fragments) for bound, fragments in parts]
    part_ends = (
        ends[0][-1:] if len(ends) == 1 else np.cumsum([rows[-1] if len(rows) else 0 for rows in ends], dtype=np.int64)
    )
    num_rows = int(part_ends[-1]) if len(part_ends) else 0
    order_of_positions = order_within(address_of(positions), len(positions), num_rows)
    if order_of_positions < 0:
        raise _no_such_row(positions, num_rows)
    if not scan.output:
        return pa.Table.from_batches([no_columns(len(positions))])
    if len(positions) == 0:
        return pa.Table.from_batches([no_rows(scan.arrow_schema)])
    if len(parts) == 1 and len(positions) <= _FEW_POSITIONS:
        few = _few_rows(*parts[0], ends[0], positions)
        if few is not None:
            return few
    wanted, order = (positions, None) if order_of_positions else np.unique(positions, return_inverse=True)
    found: list[pa.Table] = []
    for part, of_part in _by_owner(wanted, part_ends):
        bound, fragments = parts[part]
        inside = [(fragments[place], rows) for place, rows in _by_owner(of_part, ends[part])]
        found += bound.read_rows_of_fragments(inside)
    rows = found[0] if len(found) == 1 else pa.concat_tables(found)
    if order is None:
        return rows
    columns = [take_chunked(column, order) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _few_rows(scan: Scan, fragments: FragmentList, ends: Int64Array, positions: Int64Array) -> pa.Table | None:
    """The rows at `positions`, in that order, if they can be copied so; they need not be sorted and put back then."""
    if len(ends) == 1:
        found, owners = {0}, None
    else:
        owners = ends.searchsorted(positions, side="right")
        found = set(owners.tolist())
    if not scan.single_rows.can_read(len(positions), len(found)):
        return None
    wanted: list[RowsOfFragment] = []
    for owner in found:
        inside, places = positions, None
        if owners is not None:
            (places,) = (owners == owner).nonzero()
            inside = positions[places] - (int(ends[owner - 1]) if owner else 0)
        wanted.append(scan.single_rows.live_rows(fragments[owner], inside, places))
    columns = scan.single_rows.read(wanted, len(positions))
    return None if columns is None else pa.Table.from_arrays(columns, schema=scan.arrow_schema)


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
