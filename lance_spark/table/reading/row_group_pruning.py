"""Prunes row groups of 0.1 files by the minimum and maximum that their writers recorded.

Files of later versions have no such statistics. Only types whose statistics mean the same for every writer are used:
integers, dates, times and timestamps. Statistics of floats ignore NaN, and empty strings are read as null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

from lance_spark.errors import NotFoundError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.nodes import Expr, referenced_columns
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.file.v0_1_reader import RowGroupBounds, V01FileReader
from lance_spark.schema.arrow import to_arrow_schema, to_arrow_type
from lance_spark.schema.field import Field, LanceSchema

RowSpan = tuple[int, int]


def matching_row_groups(
    filter: Expr, schema: LanceSchema, readers: Sequence[V01FileReader], num_rows: int, *, time_zone: str
) -> list[RowSpan]:
    """Inclusive projection: the rows of a fragment, as ascending (start, stop), that may match `filter`.

    Args:
        schema: the table's schema.
        readers: the open 0.1 files of the fragment.
        num_rows: rows of the fragment.
    """
    spans = [(0, num_rows)]
    fields = _bounded_fields(filter, schema)
    for reader in readers:
        bounds = reader.bounds([field.id for field in fields.values()])
        known = {path: bounds[field.id] for path, field in fields.items() if field.id in bounds}
        if known:
            spans = _intersected(spans, _spans(filter, known, reader, time_zone))
    return spans


def _bounded_fields(filter: Expr, schema: LanceSchema) -> dict[tuple[str, ...], Field]:
    """The top-level columns of the filter, by their path in it."""
    tops = {field.name: field for field in schema.fields}
    names = to_arrow_schema(schema)
    found = {}
    for path in referenced_columns(filter):
        try:
            resolved = resolve_names(names, path)
        except NotFoundError:
            continue  # A system column.
        field = tops.get(resolved[0])
        if field is not None and len(resolved) == 1 and _has_exact_bounds(to_arrow_type(field)):
            found[path] = field
    return found


def _has_exact_bounds(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_temporal(data_type))


def _spans(
    filter: Expr, known: Mapping[tuple[str, ...], RowGroupBounds], reader: V01FileReader, time_zone: str
) -> list[RowSpan]:
    offsets = reader.row_group_offsets.tolist()
    spans = []
    for group, (start, stop) in enumerate(pairwise(offsets)):
        statistics = {path: _statistics(bounds, group) for path, bounds in known.items()}
        if may_match(filter, statistics, time_zone=time_zone):
            spans.append((start, stop))
    return spans


def _statistics(bounds: RowGroupBounds, group: int) -> ColumnStatistics:
    low, high = bounds.min[group], bounds.max[group]
    return ColumnStatistics(low if low.is_valid else None, high if high.is_valid else None)


def _intersected(one: Sequence[RowSpan], other: Sequence[RowSpan]) -> list[RowSpan]:
    """The intersection of two lists of ascending spans; adjacent spans are merged.

    >>> _intersected([(0, 10)], [(0, 3), (3, 5), (7, 12)])
    [(0, 5), (7, 10)]
    """
    found: list[RowSpan] = []
    for start, stop in one:
        for first, last in other:
            low, high = max(start, first), min(stop, last)
            if low >= high:
                continue
            if found and found[-1][1] == low:
                found[-1] = (found[-1][0], high)
            else:
                found.append((low, high))
    return found
