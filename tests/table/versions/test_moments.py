"""Times of versions as datetime, pandas and numpy have them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any

import lance
import numpy as np
import pandas as pd
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.moments import in_utc
from tests.table_verbs.kinds import ROWS, Kind, Partitioned, Plain, table_of

AT = datetime(2024, 5, 6, 7, 8, 9, 123456)


@pytest.fixture(autouse=True)
def local_zone() -> Iterator[None]:
    """Local time is two hours ahead of UTC."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TZ", "XXX-2")
        time.tzset()
        yield
    time.tzset()


UTC = AT.replace(tzinfo=timezone.utc)
LOCAL = (AT - timedelta(hours=2)).replace(tzinfo=timezone.utc)
NANOS = "2024-05-06T07:08:09.123456789"
MOMENTS: dict[str, tuple[Any, datetime]] = {
    "datetime": (AT, LOCAL),
    "datetime with a zone": (UTC, UTC),
    "date": (date(2024, 5, 6), datetime(2024, 5, 5, 22, tzinfo=timezone.utc)),
    "pandas": (pd.Timestamp(NANOS), LOCAL),
    "pandas with a zone": (pd.Timestamp(NANOS, tz="America/New_York"), UTC + timedelta(hours=4)),
    "pandas of a year": (pd.Timestamp(AT).as_unit("s"), LOCAL.replace(microsecond=0)),
    "numpy": (np.datetime64(NANOS), LOCAL),
    "numpy of seconds": (np.datetime64(AT, "s"), LOCAL.replace(microsecond=0)),
    "numpy of days": (np.datetime64("2024-05-06"), datetime(2024, 5, 5, 22, tzinfo=timezone.utc)),
    "numpy before 1970": (np.datetime64(-1, "ns"), datetime(1969, 12, 31, 21, 59, 59, 999999, tzinfo=timezone.utc)),
    "numpy long ago": (np.datetime64(-(10**6), "Y"), datetime.min.replace(tzinfo=timezone.utc)),
    "numpy far away": (np.datetime64(10**6, "Y"), datetime.max.replace(tzinfo=timezone.utc)),
}
NO_MOMENTS = {"NaT of pandas": pd.NaT, "NaT of numpy": np.datetime64("NaT"), "text": "2024-05-06", "number": 5}


@pytest.mark.parametrize("name", MOMENTS)
def test_moment_in_utc(name: str) -> None:
    moment, expected = MOMENTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert in_utc(moment) == expected


@pytest.mark.parametrize("name", NO_MOMENTS)
def test_no_moment(name: str) -> None:
    with pytest.raises(InvalidInputError, match="NaT is no time" if "NaT" in name else "is not a datetime"):
        in_utc(NO_MOMENTS[name])


AFTER: dict[str, Callable[[datetime], Any]] = {
    "datetime": lambda moment: moment,
    "local time": lambda moment: moment.astimezone().replace(tzinfo=None),
    "pandas": pd.Timestamp,
    "pandas in local time": lambda moment: pd.Timestamp(moment.astimezone().replace(tzinfo=None)),
    "numpy": lambda moment: np.datetime64(moment.astimezone().replace(tzinfo=None), "ns"),
}


@pytest.mark.parametrize("name", AFTER)
@pytest.mark.parametrize("kind", [Plain, Partitioned])
def test_table_as_of_a_time(kind: type[Kind], name: str) -> None:
    first = kind(stable_row_ids=False).create(*ROWS)
    first.append(table_of((6, "a", 60)))
    moment = AFTER[name](first.timestamp)
    opened = lance_spark.open(first.uri, asof=moment)
    assert (opened.version, opened.count_rows()) == (first.version, 5)
    assert lance_spark.open(first.uri, timestamp=moment).version == first.version
    assert opened.plan_changes(moment, moment).batches is not None
    with pytest.raises(NotFoundError, match="no version from 1999"):
        lance_spark.open(first.uri, asof=AFTER[name](datetime(2000, 1, 1, tzinfo=timezone.utc) - timedelta(hours=3)))
    for wrong in NO_MOMENTS.values():
        with pytest.raises(InvalidInputError):
            lance_spark.open(first.uri, asof=wrong)


@pytest.mark.parametrize("name", ["local time", "pandas in local time"])
def test_time_without_a_zone_is_local_for_pylance_too(tmp_path: Any, name: str) -> None:
    lance_spark.write(table_of(*ROWS), tmp_path / "t")
    moment = AFTER[name](datetime.now(timezone.utc) + timedelta(seconds=60))
    assert lance.dataset(tmp_path / "t", asof=moment).version == 1
    assert lance_spark.open(tmp_path / "t", asof=moment).version == 1


def test_clean_up_by_a_time(tmp_path: Any) -> None:
    table = lance_spark.write(table_of(*ROWS), tmp_path / "t").append(table_of(*ROWS))
    with pytest.raises(InvalidInputError, match="NaT is no time"):
        table.cleanup(pd.NaT)
    assert table.cleanup(pd.Timestamp(table.timestamp)).versions == (1,)
