"""Spark's filters as expressions: the same rows, judged on what Spark sees of the values. No JVM is needed."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as spark
from pyspark.sql.types import VariantVal
from pyspark.sql.variant_utils import VariantUtils

from lance_spark.expr.evaluate import evaluate
from lance_spark.expr.sql.parse import parse
from lance_spark.spark.compat import SPARK
from lance_spark.spark.plugin.filters import split_filters, to_expr
from lance_spark.spark.types.values import to_spark_batch

if SPARK < (4, 1):
    pytest.skip("since Spark 4.1: filters of Python data sources", allow_module_level=True)

UTC = datetime.timezone.utc
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("x", pa.float64()),
        ("h", pa.float16()),
        ("d", pa.decimal128(38, 10)),
        ("s", pa.string()),
        ("code", pa.dictionary(pa.int8(), pa.string())),
        ("b", pa.binary(2)),
        ("o", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("ms")),
        ("list", pa.list_(pa.int32())),
        ("st", pa.struct([("a", pa.int32()), ("x.y", pa.string())])),
        ("clock", pa.time64("ns")),
    ]
)


@pytest.mark.parametrize(
    ("spark_filter", "sql"),
    [
        (spark.EqualTo(("i",), 5), "i = 5"),
        (spark.EqualNullSafe(("i",), 5), "i <=> 5"),
        (spark.GreaterThan(("i",), 5), "i > 5"),
        (spark.GreaterThanOrEqual(("i",), 5), "i >= 5"),
        (spark.LessThan(("x",), 0.5), "x < 0.5D"),
        (spark.LessThanOrEqual(("x",), math.inf), "x <= double('Infinity')"),
        (spark.EqualTo(("x",), math.nan), "x = double('NaN')"),
        (spark.EqualTo(("h",), 0.10000000149011612), "h = 0.10000000149011612D"),
        (spark.EqualTo(("u",), Decimal("18446744073709551615")), "u = 18446744073709551615BD"),
        (spark.GreaterThan(("d",), Decimal("12345678901234567.5000000000")), "d > 12345678901234567.5000000000"),
        (spark.In(("i",), [1, 2]), "i IN (1, 2)"),  # PySpark 4.3 makes lists of the tuples that it declares
        (spark.In(("s",), ("a", None)), "s IN ('a', NULL)"),
        (spark.IsNull(("list",)), "list IS NULL"),
        (spark.IsNotNull(("st", "a")), "st.a IS NOT NULL"),
        (spark.EqualTo(("st", "x.y"), "q"), "st.`x.y` = 'q'"),
        (spark.StringStartsWith(("s",), "a%"), "startswith(s, 'a%')"),
        (spark.StringEndsWith(("code",), "a"), "endswith(code, 'a')"),
        (spark.StringContains(("s",), "a"), "contains(s, 'a')"),
        (spark.Not(spark.EqualTo(("o",), True)), "NOT o = TRUE"),
        (spark.Not(spark.In(("i",), (1, None))), "NOT i IN (1, NULL)"),
        (spark.EqualTo(("b",), b"\x00\xff"), "b = X'00FF'"),
        (spark.GreaterThan(("day",), datetime.date(2024, 1, 1)), "day > DATE '2024-01-01'"),
        (spark.LessThan(("ts",), datetime.datetime(2024, 1, 1, tzinfo=UTC)), "ts < TIMESTAMP '2024-01-01 00:00:00Z'"),
        (spark.EqualTo(("ntz",), datetime.datetime(2024, 1, 1)), "ntz = TIMESTAMP_NTZ '2024-01-01'"),
    ],
)
def test_translated(spark_filter: spark.Filter, sql: str) -> None:
    assert to_expr(spark_filter, SCHEMA) == parse(sql)


class UnknownFilter(spark.Filter):
    attribute = ("i",)


@pytest.mark.parametrize(
    "spark_filter",
    [
        spark.EqualTo(("i",), VariantVal(b"", b"")),
        spark.EqualTo(("list",), 5),
        spark.EqualTo(("i",), "5"),
        spark.EqualTo(("nothing",), 5),
        spark.EqualTo(("st", "nothing"), 5),
        spark.IsNull(("nothing",)),
        spark.In(("i",), ()),
        spark.In(("i",), (1, {"a": 1})),
        spark.In(("d",), (Decimal("1." + "0" * 27), Decimal(1))),
        spark.StringContains(("i",), "5"),
        spark.GreaterThan(("clock",), datetime.time(1, 2, 3)),
        spark.Not(spark.EqualTo(("list",), 5)),
        spark.Not(UnknownFilter()),
        UnknownFilter(),
    ],
)
def test_left_to_spark(spark_filter: spark.Filter) -> None:
    assert to_expr(spark_filter, SCHEMA) is None
    kept = spark.EqualTo(("i",), 1)
    assert split_filters([spark_filter, kept], SCHEMA) == ([parse("i = 1")], [spark_filter])


def test_decimals_that_pyspark_may_have_rounded_stay_with_spark() -> None:
    """`d = 1234567890123456789012345678.0123456789` arrives in Python without its fraction."""
    asked = Decimal("1234567890123456789012345678.0123456789")
    unscaled = int(asked.scaleb(10))
    # Variant encoding: primitive header for a 16-byte decimal, scale, little-endian value.
    encoded = bytes([VariantUtils.DECIMAL16 << 2, 10]) + unscaled.to_bytes(16, "little", signed=True)
    arrived = VariantVal(encoded, bytes([1, 0, 0])).toPython()
    assert arrived != asked
    assert to_expr(spark.EqualTo(("d",), arrived), SCHEMA) is None
    assert to_expr(spark.EqualTo(("d",), Decimal("1" * 27)), SCHEMA) is not None


# Values that Spark sees cut off

NANOS = st.integers(-3_000, 3_000)
FILTERS: list[Any] = [
    spark.EqualTo,
    spark.EqualNullSafe,
    spark.GreaterThan,
    spark.GreaterThanOrEqual,
    spark.LessThan,
    spark.LessThanOrEqual,
]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.none() | NANOS, min_size=1, max_size=6),
    st.integers(-3, 3),
    st.sampled_from(FILTERS),
    st.sampled_from(["ntz", "ltz", "interval"]),
)
def test_nanoseconds_match_as_the_microseconds_that_spark_sees(
    nanos: list[int | None], micros: int, kind: Any, what: str
) -> None:
    types = {"ntz": pa.timestamp("ns"), "ltz": pa.timestamp("ns", "UTC"), "interval": pa.duration("ns")}
    seen_types = {"ntz": pa.timestamp("us"), "ltz": pa.timestamp("us", "UTC"), "interval": pa.duration("us")}
    value = {
        "ntz": datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros),
        "ltz": datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=micros),
        "interval": datetime.timedelta(microseconds=micros),
    }[what]
    stored = pa.record_batch({"c": pa.array(nanos, types[what])})
    seen = to_spark_batch(stored, pa.schema([("c", seen_types[what])]))
    for spark_filter in (kind(("c",), value), spark.Not(kind(("c",), value))):
        on_stored, on_seen = to_expr(spark_filter, stored.schema), to_expr(spark_filter, seen.schema)
        assert on_stored is not None
        assert on_seen is not None
        assert evaluate(on_stored, stored).equals(evaluate(on_seen, seen))


def test_lists_of_nanoseconds() -> None:
    stored = pa.record_batch({"c": pa.array([999, 1000, 1999, 2000, None], pa.timestamp("ns"))})
    moments = [datetime.datetime(1970, 1, 1, microsecond=k) for k in (1, 7)]
    for values, expected in (
        (moments, [False, True, True, False, None]),
        (moments[:1], [False, True, True, False, None]),
    ):
        expression = to_expr(spark.In(("c",), tuple(values)), stored.schema)
        assert expression is not None
        assert evaluate(expression, stored).to_pylist() == expected


def test_dates_in_milliseconds() -> None:
    stored = pa.record_batch({"c": pa.array([-1, 0, 86_399_999, None], pa.int64()).view(pa.date64())})
    expression = to_expr(spark.EqualTo(("c",), datetime.date(1970, 1, 1)), stored.schema)
    assert expression is not None
    assert evaluate(expression, stored).to_pylist() == [False, True, True, None]
    assert to_spark_batch(stored, pa.schema([("c", pa.date32())])).column(0).cast(pa.int32()).to_pylist() == [
        -1,
        0,
        0,
        None,
    ]
