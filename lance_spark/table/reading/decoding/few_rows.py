"""Few rows of a scan, picked from mapped files: first the columns of its filter, then those that it returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.values import no_rows
from lance_spark.table.reading.decoding.columns import ReadColumns
from lance_spark.table.reading.decoding.single_rows import SingleRowColumns
from lance_spark.table.rows.fragment import DataFragment

_Rows = Sequence[tuple[DataFragment, Int64Array]]


def picked_rows(
    columns: ReadColumns, filtered: SingleRowColumns, output: SingleRowColumns, wanted: _Rows, most: int, time_zone: str
) -> pa.RecordBatch | None:
    """The rows at offsets (int64[n], ascending for a filter) of fragments that the filter keeps, in one batch.

    None if the page reader has to read them, or they are more than `most`.

    Args:
        columns: columns of the scan.
        filtered, output: read the columns of the filter, and those that are returned.
        time_zone: of the filter.

    Raises:
        LanceError: a file is missing or contradicts the format.
        InvalidInputError: the filter fails on a value.
    """
    rows: _Rows | None = wanted
    if columns.filter is not None:
        rows = _matching(columns, filtered, wanted, time_zone)
    if rows is None or sum([len(offsets) for _, offsets in rows]) > most:
        return None
    schema = columns.returned.arrow_schema
    return output.batch(rows, schema) if rows else no_rows(schema)


def _matching(columns: ReadColumns, filtered: SingleRowColumns, wanted: _Rows, time_zone: str) -> _Rows | None:
    """The rows of `wanted` for which the filter is true; None if its columns cannot be picked."""
    arrays = None if columns.plain_names is None else filtered.columns(wanted)
    if arrays is None:
        return None
    batch = pa.RecordBatch.from_arrays(arrays, [field.name for field in columns.filter_fields])
    numbers: Int64Array = np.arange(batch.num_rows)
    for stage in columns.stages:
        keep = evaluate_filter(stage.condition, batch, time_zone=time_zone)
        if keep.true_count < len(keep):
            batch = batch.filter(keep)
            numbers = numbers[keep.fill_null(False).to_numpy(zero_copy_only=False)]
    rows, start = [], 0
    for fragment, offsets in wanted:
        first, stop = numbers.searchsorted([start, start + len(offsets)])
        if stop > first:
            rows.append((fragment, offsets[numbers[first:stop] - start]))
        start += len(offsets)
    return rows
