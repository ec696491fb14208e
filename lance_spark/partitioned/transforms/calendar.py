"""Calendar fields of dates and timestamps: proleptic Gregorian calendar for all years.

Fields are numbered as levels of a hierarchy: year, month (1-12), day of the month (1-31), hour (0-23).

>>> fields_of(-1, 24), days_of_date(2000, 2, 29)     # one hour before 1970
((1969, 12, 31, 23), 11016)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import NANOS_PER_DAY
from lance_spark.expr.grid import grid_of

Fields = tuple[int, int, int, int]
Ticks = npt.NDArray[np.int64]


class Level(IntEnum):
    """Calendar fields from coarse to fine; their names are the types of the transforms."""

    YEAR = 0
    MONTH = 1
    DAY = 2
    HOUR = 3


FIRST: tuple[int | None, int, int, int] = (None, 1, 1, 0)
"""The first value of each field; years have none."""


def ticks_per_day(type_: pa.DataType) -> int:
    """Ticks of a day in a plain date or timestamp type."""
    return int(NANOS_PER_DAY / grid_of(type_).tick)


def days_of_date(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date_of_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of the month."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def fields_of(tick: int, per_day: int) -> Fields:
    """All fields of the time that is `tick` ticks after 1970-01-01."""
    days, rest = divmod(tick, per_day)
    return (*date_of_days(days), rest * 24 // per_day)


def last_of(level: Level, fields: Fields) -> int | None:
    """The last value of a field given the coarser ones of `fields`; None for years."""
    if level is Level.DAY:
        year, month = fields[0] + fields[1] // 12, fields[1] % 12 + 1
        return days_of_date(year, month, 1) - days_of_date(fields[0], fields[1], 1)
    return (None, 12, 0, 23)[level]


def start_of(year: int, month: int = 1, day: int = 1, hour: int = 0) -> int:
    """Hours from 1970-01-01 to the start of a year, month, day or hour."""
    return days_of_date(year, month, day) * 24 + hour


def end_of(*fields: int) -> int:
    """Hours from 1970-01-01 to the end of the year, month, day or hour given by the fields, coarsest first."""
    if len(fields) <= 2:
        year, month = divmod(fields[0] * 12 + (fields[1] if len(fields) == 2 else 12), 12)
        return start_of(year, month + 1)
    return start_of(*fields) + (1 if len(fields) == 4 else 24)


def _years(ticks: Ticks, per_day: int) -> Ticks:
    return _dates(ticks, per_day).astype("datetime64[Y]").astype(np.int64) + 1970


def _months(ticks: Ticks, per_day: int) -> Ticks:
    return _dates(ticks, per_day).astype("datetime64[M]").astype(np.int64) % 12 + 1


def _days(ticks: Ticks, per_day: int) -> Ticks:
    dates = _dates(ticks, per_day)
    days: Ticks = (dates - dates.astype("datetime64[M]")).astype(np.int64) + 1
    return days


def _hours(ticks: Ticks, per_day: int) -> Ticks:
    return (ticks % per_day) // max(per_day // 24, 1)


def _dates(ticks: Ticks, per_day: int) -> npt.NDArray[np.datetime64]:
    return (ticks // per_day).view("datetime64[D]")


_FIELDS: tuple[Callable[[Ticks, int], Ticks], ...] = (_years, _months, _days, _hours)


def field_values(level: Level, values: pa.Array) -> pa.Int32Array:
    """One calendar field of plain dates or timestamps (in UTC, or local time without a zone).

    Raises:
        InvalidInputError: a year that does not fit into 32 bits.
    """
    if values.type == pa.date32():
        values = values.cast(pa.int32())
    ticks = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    fields = _FIELDS[level](np.ascontiguousarray(ticks), ticks_per_day_of(values.type))
    if level is Level.YEAR and len(fields) and not (fields.min() >= -(2**31) and fields.max() < 2**31):
        raise InvalidInputError(
            "a timestamp is in a year that does not fit into 32 bits; it cannot be partitioned by year"
        )
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(fields.astype(np.int32), mask=nulls)


def ticks_per_day_of(type_: pa.DataType) -> int:
    """Ticks of a day in a date, timestamp or integer type; integers count days."""
    return 1 if pa.types.is_integer(type_) else ticks_per_day(type_)
