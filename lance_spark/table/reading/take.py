"""Rows by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.table.reading.scan import Scan, no_columns
from lance_spark.table.rows.fragment import FragmentList


def take(scan: Scan, fragments: FragmentList, indices: Sequence[int]) -> pa.Table:
    """The rows at `indices` of the result of `scan`, which has no filter: in that order, duplicates included.

    Raises:
        InvalidInputError: no such row.
    """
    return take_of_splits(scan, [(scan, fragments)], indices)


def take_of_splits(scan: Scan, parts: Sequence[tuple[Scan, FragmentList]], indices: Sequence[int]) -> pa.Table:
    """As `take`, of the rows of several tables after each other.

    Args:
        scan: what is read of each.
        parts: the same scan for each table, and its fragments.

    Raises:
        InvalidInputError: no such row.
    """
    positions = _positions(indices)
    pieces = [(bound, fragments, place) for bound, fragments in parts for place in range(len(fragments))]
    counts = np.array([count for bound, fragments in parts for count in bound.counts(fragments)], np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    outside = positions[(positions < 0) | (positions >= total)]
    if len(outside):
        raise InvalidInputError(f"there is no row {int(outside[0])}; the table has {total} rows, counted from 0")
    if not scan.output:
        return pa.Table.from_batches([no_columns(len(positions))])
    wanted, places = np.unique(positions, return_inverse=True)
    found = []
    owners = np.searchsorted(ends, wanted, side="right")
    for owner in np.unique(owners).tolist():
        inside = wanted[owners == owner] - (int(ends[owner]) - int(counts[owner]))
        bound, fragments, place = pieces[owner]
        found.append(bound.read_rows(fragments[place], inside))
    if not found:
        return scan.arrow_schema.empty_table()
    rows = pa.concat_tables(found)
    if len(wanted) == len(positions) and bool((wanted == positions).all()):
        return rows
    columns = [take_chunked(column, places) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _positions(indices: Sequence[int]) -> Int64Array:
    try:
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
