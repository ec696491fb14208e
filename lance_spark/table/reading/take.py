"""Rows by position."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.table.reading.decoding.rows import no_columns
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import FragmentList


def take_of_splits(scan: Scan, parts: Sequence[tuple[Scan, FragmentList]], indices: Sequence[int]) -> pa.Table:
    """The rows at `indices` of the rows of several tables after each other: in that order, duplicates included.

    Args:
        scan: what is read of each; it has no filter.
        parts: the same scan for each table, and its fragments.

    Raises:
        InvalidInputError: no such row.
    """
    positions = _positions(indices)
    pieces = [(part, place) for part, (_, fragments) in enumerate(parts) for place in range(len(fragments))]
    counts = np.array([count for bound, fragments in parts for count in bound.counts(fragments)], np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    outside = positions[(positions < 0) | (positions >= total)]
    if len(outside):
        raise InvalidInputError(f"there is no row {int(outside[0])}; the table has {total} rows, counted from 0")
    if not scan.output:
        return pa.Table.from_batches([no_columns(len(positions))])
    if len(positions) == 0:
        return scan.arrow_schema.empty_table()
    is_sorted = bool((positions[1:] > positions[:-1]).all())
    wanted, order = (positions, None) if is_sorted else np.unique(positions, return_inverse=True)
    found: list[pa.Table] = []
    places = _by_owner(wanted, ends)
    for part, group in groupby(places, lambda item: pieces[item[0]][0]):
        bound, fragments = parts[part]
        inside = [(fragments[pieces[owner][1]], rows - (ends[owner] - counts[owner])) for owner, rows in group]
        found += bound.read_rows_of_fragments(inside)
    rows = found[0] if len(found) == 1 else pa.concat_tables(found)
    if order is None:
        return rows
    columns = [take_chunked(column, order) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _by_owner(wanted: Int64Array, ends: Int64Array) -> list[tuple[int, Int64Array]]:
    """(index of the piece, those of `wanted` in it) of pieces of rows with these `ends`; `wanted` ascend."""
    if len(ends) == 1:
        return [(0, wanted)]
    owners, first = np.unique(np.searchsorted(ends, wanted, side="right"), return_index=True)
    return list(zip(owners.tolist(), np.split(wanted, first[1:]), strict=True))


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
