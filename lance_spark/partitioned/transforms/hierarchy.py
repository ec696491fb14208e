"""Year, month, day and hour of one column as one ordered number, for joins.

Partitions by `year(ts), month(ts), day(ts)` are partitions by date: the number of days since 1970-01-01 orders them as
`ts` does, and is reduced to months or years, so that tables of different granularity join without a shuffle
(specification, Storage Partitioned Join: time hierarchy).

>>> days = ordinals([pa.array([2024, None]), pa.array([2, None]), pa.array([29, None])])
>>> days.to_pylist(), CoarserTime(Level.DAY, Level.MONTH).apply(days).to_pylist()
([19782, None], [649, None])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.transforms.base import Keep, Reducer
from lance_spark.partitioned.transforms.calendar import Level

_UNITS = ("Y", "M", "D", "h")


def ordinals(fields: Sequence[pa.Array]) -> pa.Int64Array:
    """Years, months, days or hours since 1970, from one to four columns of fields: year, month, day, hour.

    Null where the year is null: int64[num_rows].
    """
    if not 1 <= len(fields) <= len(Level):
        raise InvalidInputError(f"a time hierarchy has one to four fields, got {len(fields)}")
    first = (1970, 1, 1, 0)
    parts = [
        column.cast(pa.int64()).fill_null(start).to_numpy(zero_copy_only=False) - start
        for column, start in zip(fields, first, strict=False)
    ]
    total = parts[0].view("datetime64[Y]")
    for unit, part in zip(_UNITS[1:], parts[1:], strict=False):
        total = total.astype(f"datetime64[{unit}]") + part
    nulls = fields[0].is_null().to_numpy(zero_copy_only=False) if fields[0].null_count else None
    return pa.array(total.astype(np.int64), mask=nulls)


@dataclass(frozen=True, slots=True)
class CoarserTime(Reducer):
    """Reduces ordinals of `source` granularity to those of a coarser `target`."""

    source: Level
    target: Level

    def apply(self, values: pa.Array) -> pa.Array:
        nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        numbers = np.ascontiguousarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
        moments = numbers.view(f"datetime64[{_UNITS[self.source]}]")
        return pa.array(moments.astype(f"datetime64[{_UNITS[self.target]}]").astype(np.int64), mask=nulls)


def time_reducer(source: Level, other: Level) -> Reducer:
    """The reducer that makes ordinals of one granularity comparable with those of another."""
    return Keep() if source <= other else CoarserTime(source, other)
