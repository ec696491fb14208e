"""Partition values of rows: groups rows by partition, and defines equality of values.

Two rows belong to one partition if all of their values are the same. NULL is a value, NaN is one value, and 0.0 and
-0.0 are one. A `KeyValues` holds the values in a form that compares and hashes that way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array

KeyValues = tuple[object, ...]
"""The values of a partition, in the order of the fields."""

_NAN = "NaN"


def keys_of(values: pa.RecordBatch | pa.Table) -> list[KeyValues]:
    """The key of each row; columns are the partition fields, in their order.

    >>> nan, zero = float("nan"), -0.0
    >>> keys_of(pa.table({"a": [nan, zero, None], "b": ["x", None, ""]}))
    [('NaN', 'x'), (0.0, None), (None, '')]
    """
    if not values.num_columns:
        return [()] * values.num_rows
    return list(zip(*(_comparable(column) for column in values.columns), strict=True))


def _comparable(column: pa.Array | pa.ChunkedArray) -> list[object]:
    dtype = column.type
    if pt.is_floating(dtype):
        return [None if value is None else _NAN if value != value else value + 0.0 for value in column.to_pylist()]
    if pt.is_temporal(dtype) and not pt.is_interval(dtype):
        column = column.cast(pa.int32() if dtype.bit_width == 32 else pa.int64())
    found: list[object] = column.to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of one partition.

    Attributes:
        values: one row with the partition values.
        rows: its rows, in input order.
        places: int64[rows]: their indexes in the input.
    """

    values: pa.RecordBatch
    rows: pa.RecordBatch
    places: Int64Array

    @property
    def key(self) -> KeyValues:
        return keys_of(self.values)[0]


def grouped(rows: pa.RecordBatch, values: pa.RecordBatch) -> Iterator[PartitionRows]:
    """The rows grouped by partition, in the order of the partitions' first rows.

    Args:
        values: the partition values of each of the rows.
    """
    if not rows.num_rows:
        return
    codes = _codes(values)
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    if len(first) == 1:
        yield PartitionRows(values.slice(0, 1), rows, np.arange(rows.num_rows))
        return
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups))
    for group in np.argsort(first):
        places = order[ends[group - 1] if group else 0 : ends[group]]
        yield PartitionRows(values.slice(int(first[group]), 1), rows.take(pa.array(places)), places)


def _codes(values: pa.RecordBatch) -> Int64Array:
    """int64[rows]: a number for each combination of values."""
    codes = np.zeros(values.num_rows, np.int64)
    for column in values.columns:
        encoded = _numbered(column)
        _, codes = np.unique(codes * (int(encoded.max()) + 1) + encoded, return_inverse=True)
    return codes


def _numbered(column: pa.Array) -> Int64Array:
    if pt.is_floating(column.type):
        numbers: dict[object, int] = {}
        keys = _comparable(column)
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    indices = column.dictionary_encode(null_encoding="encode").indices
    assign_fragment_ids: Int64Array = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return assign_fragment_ids
