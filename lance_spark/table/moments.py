"""Times as datetime, pandas and numpy have them."""

from __future__ import annotations

import sys
from datetime import date, datetime, timezone
from typing import TypeAlias, TypeGuard

import numpy as np

from lance_spark.errors import InvalidInputError

Moment: TypeAlias = datetime | date | np.datetime64
"""A `pandas.Timestamp` is a datetime. One without a zone is local time, a date its first moment."""


def is_moment(value: object) -> TypeGuard[Moment]:
    """Whether a value is of one of the types of `Moment`."""
    return isinstance(value, (date, np.datetime64))


def in_utc(moment: object) -> datetime:
    """A `Moment` in UTC, to the microsecond. Those that leave the years 1 to 9999 are their begin or end.

    >>> str(in_utc(datetime.fromisoformat("0001-01-01T00:00:00+02:00")))
    '0001-01-01 00:00:00+00:00'

    Raises:
        InvalidInputError: it is not a time, or NaT.
    """
    instant = _datetime(moment)
    try:
        return instant.astimezone(timezone.utc)
    except (OverflowError, ValueError):
        limit = datetime.min if instant.year <= 1 else datetime.max
        return limit.replace(tzinfo=timezone.utc)


def _datetime(moment: object) -> datetime:
    if not is_moment(moment):
        raise InvalidInputError(
            f"the time {moment!r} is not a datetime; give one of datetime, pandas or numpy, or a date"
        )
    if moment != moment:
        raise InvalidInputError("NaT is no time; leave it out for the newest version")
    if isinstance(moment, np.datetime64):
        year = 1970 + int(moment.astype("datetime64[Y]").astype(np.int64))
        if not datetime.min.year <= year <= datetime.max.year:
            return datetime.min if year < 1970 else datetime.max
        local: datetime = moment.astype("datetime64[us]").item()  # Finer units are cut off towards the past.
        return local
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(moment, pandas.Timestamp):
        moment = moment.to_pydatetime(warn=False)
    if isinstance(moment, datetime):
        return moment
    assert isinstance(moment, date)
    return datetime.combine(moment, datetime.min.time())
