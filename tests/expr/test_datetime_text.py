"""Dates and times as text, against Python's datetime and zoneinfo and the forms that Spark documents."""

from __future__ import annotations

import datetime
import zoneinfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import (
    check_time_zone,
    format_date,
    format_time,
    format_timestamp,
    parse_date,
    parse_time,
    parse_timestamp,
)
from lance_spark.expr.temporal import to_instants, to_local, to_unit

EPOCH = datetime.datetime(1970, 1, 1)
DAY = 86_400 * 10**9


@settings(max_examples=100)
@given(st.dates())
def test_dates(day: datetime.date) -> None:
    days = (day - EPOCH.date()).days
    assert parse_date(day.isoformat()) == days
    assert parse_date(f" {day.year:04}-{day.month}-{day.day} ") == days
    assert format_date(days) == day.isoformat()


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970", 0),
        ("1970-2", 31),
        ("1970-01-02 12:34:56", 1),
        ("1970-01-02T", 1),
        ("+10000-01-01", 2932897),
        ("-0001-01-01", -719893),
        ("0000-01-01", -719528),
        ("2024-02-30", None),
        ("2023-02-29", None),
        ("2024-00-01", None),
        ("2024-13-01", None),
        ("24-01-01", None),
        ("2024-1-1x", None),
        ("20240101", None),
        ("", None),
        ("today", None),
    ],
)
def test_date_forms(text: str, days: int | None) -> None:
    # 20240101 has a year of more than seven digits; today and now are no literals in Spark 4 either.
    assert parse_date(text) == days
    if days is not None:
        assert parse_date(format_date(days)) == days


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01 00:00:00", 0),
        ("1970-01-01", 0),
        ("1970-01-01T1:2:3", 3_723 * 10**9),
        ("1970-01-01 01:02", 3_720 * 10**9),
        ("1970-01-01 00:00:00.5", 5 * 10**8),
        ("1970-01-01 00:00:00.123456789", 123_456_789),
        ("1970-01-01 00:00:00.1234567899", 123_456_789),
        ("1970-01-01 00:00:00Z", 0),
        ("1970-01-01 00:00:00 UTC", 0),
        ("1970-01-01 00:00:00+01:00", -3_600 * 10**9),
        ("1970-01-01 00:00:00-8", 8 * 3_600 * 10**9),
        ("1970-01-01 00:00:00+0530", -19_800 * 10**9),
        ("1970-01-01 00:00:00GMT+2", -7_200 * 10**9),
        ("1970-07-01 00:00:00 Europe/Paris", (181 * 86_400 - 3_600) * 10**9),
        ("2024-07-01 00:00:00 Europe/Paris", 1_719_784_800 * 10**9),
        ("1970-01-01 24:00:00", None),
        ("1970-01-01 00:60:00", None),
        ("1970-01-01 00:00:00+19:00", None),
        ("1970-01-01 00:00:00 Mars/Base", None),
        ("1970-01-01 00:00:00.x", None),
        ("12:00:00", None),
        ("now", None),
    ],
)
def test_timestamp_forms(text: str, nanos: int | None) -> None:
    parsed = parse_timestamp(text, "UTC")
    assert (None if parsed is None else parsed.nanos) == nanos


@settings(max_examples=100)
@given(
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
    st.sampled_from(["UTC", "+05:30", "-08:00"]),
)
def test_session_zone(moment: datetime.datetime, zone: str) -> None:
    parsed = parse_timestamp(moment.isoformat(" "), zone)
    offset = {"UTC": 0, "+05:30": 19_800, "-08:00": -28_800}[zone]
    micros = (moment - EPOCH) // datetime.timedelta(microseconds=1)
    assert parsed is not None
    assert (parsed.nanos, parsed.local_nanos) == ((micros - offset * 10**6) * 1000, micros * 1000)
    assert parse_timestamp(format_timestamp(micros, "us"), "UTC").local_nanos == micros * 1000  # type: ignore[union-attr]


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
def test_columns_and_constants_agree_around_clock_changes(zone: str) -> None:
    """Every quarter of an hour of days with a change: one rule for text, for columns, and for java.time."""
    starts = [datetime.datetime(2024, *day) for day in ((3, 10), (3, 31), (4, 7), (10, 6), (10, 27), (11, 3))]
    local = [start + datetime.timedelta(minutes=15 * k) for start in starts for k in range(96)]
    instants = to_instants(pa.array(local, pa.timestamp("us")), zone)
    for moment, micros in zip(local, instants.cast(pa.int64()).to_pylist(), strict=True):
        parsed = parse_timestamp(moment.isoformat(), zone)
        assert parsed is not None
        assert parsed.nanos == micros * 1000
        # zoneinfo with fold 0: the earlier of two, and in a gap the offset from before it (as ZonedDateTime.of).
        expected = moment.replace(tzinfo=zoneinfo.ZoneInfo(zone)).timestamp()
        assert micros == round(expected * 10**6)
    back = to_local(instants, zone).to_pylist()
    assert sum(a != b for a, b in zip(back, local, strict=True)) <= 4  # the quarters of the hour that does not exist


def test_times() -> None:
    assert parse_time("01:02:03.000000004") == 3_723 * 10**9 + 4
    assert parse_time("23:59") == 86_340 * 10**9
    assert parse_time("24:00") is None
    assert parse_time("12") is None
    assert format_time(3_723 * 10**6 + 4, "us") == "01:02:03.000004"
    assert format_time(3_723, "s") == "01:02:03"


def test_zones() -> None:
    for zone in ("UTC", "Z", "+01:00", "-3", "GMT+2", "America/New_York"):
        check_time_zone(zone)
    for zone in ("Mars/Base", "", "../etc/passwd", "+25:00", "x" * 300):
        with pytest.raises(InvalidInputError, match="unknown time zone"):
            check_time_zone(zone)


def test_units_round_towards_the_past() -> None:
    nanos = pa.array([-1, -1000, -1001, 0, 999, None], pa.int64()).cast(pa.timestamp("ns"))
    micros = to_unit(nanos, pa.timestamp("us"))
    assert micros.cast(pa.int64()).to_pylist() == [-1, -1, -2, 0, 0, None]
    seconds = pa.array([2**62, -(2**62), 7], pa.int64()).cast(pa.timestamp("s", "UTC"))
    assert to_unit(seconds, pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist() == [None, None, 7_000_000]
    assert to_unit(pa.array([1500], pa.time32("ms")), pa.time64("ns")).cast(pa.int64()).to_pylist() == [1_500_000_000]
