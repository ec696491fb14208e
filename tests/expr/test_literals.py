"""Literals keep the whole value."""

from __future__ import annotations

import datetime

import pandas as pd
import pyarrow as pa
import pytest

from lance_spark.expr.literals import NULL, Literal, literal

MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (MOMENT, Literal(1_709_209_815_123_456, pa.timestamp("us"))),
        (MOMENT.replace(tzinfo=datetime.timezone.utc), Literal(1_709_209_815_123_456, pa.timestamp("us", "UTC"))),
        (pd.Timestamp(MOMENT), Literal(1_709_209_815_123_456, pa.timestamp("us"))),
        (pd.Timestamp(-1, unit="ns"), Literal(-1, pa.timestamp("ns"))),
        (pd.Timestamp(1001, unit="ns", tz="Europe/Oslo"), Literal(1001, pa.timestamp("ns", "UTC"))),
        (pd.Timestamp("9999-12-31 23:59:59"), Literal(253_402_300_799_000_000, pa.timestamp("us"))),
        (datetime.timedelta(days=-1, microseconds=1), Literal(-86_399_999_999, pa.duration("us"))),
        (pd.Timedelta(86_400_000_000_001, unit="ns"), Literal(86_400_000_000_001, pa.duration("ns"))),
        (pd.NaT, NULL),
    ],
    ids=str,
)
def test_moments_and_durations_keep_nanoseconds(value: object, expected: Literal) -> None:
    assert literal(value) == expected
