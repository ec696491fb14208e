"""The transforms that the JVM computes, against those of Python and the examples of hashes that both share."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from lance_spark.partitioned.transforms.bucket import Bucket, MultiBucket
from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import CoarserTime, Day, Hour, Month, Year, ordinals
from lance_spark.partitioned.transforms.truncate import Truncate
from tests.support.partitioned.hashing import VECTORS, column

PARTS = {"year": Year(), "month": Month(), "day": Day(), "hour": Hour()}
START = datetime(1969, 12, 30, 22, 15, tzinfo=timezone.utc)


def read(spark: SparkSession, uri: str, table: pa.Table, expressions: list[str]) -> list[Row]:
    """The expressions over the rows of a table, in order."""
    lance.write_dataset(table, uri)
    return spark.read.format("lance").load(uri).orderBy("row").selectExpr(*expressions).collect()


@pytest.mark.since("4.1", "TIME columns")
def test_buckets_of_the_shared_examples(spark: SparkSession, uri: str) -> None:
    arrays: dict[str, pa.Array] = {"row": pa.array([0])}
    expressions = []
    for number, vector in enumerate(VECTORS):
        names = [f"c{number}_{place}" for place in range(len(vector["types"]))]
        for name, type_, value in zip(names, vector["types"], vector["values"], strict=True):
            arrays[name] = column(type_, value)
        function = "bucket" if len(names) == 1 else "multi_bucket"
        expressions.append(f"lance.{function}(16, {', '.join(names)}) AS v{number}")
    (row,) = read(spark, uri, pa.table(arrays), expressions)
    # Spark has uint64 as decimals, which hash in another way from 2**63 on; joins do not build on their buckets.
    examples = [
        (vector, value)
        for vector, value in zip(VECTORS, row, strict=True)
        if "uint64" not in vector["types"] or int(vector["values"][0] or 0) < 2**63
    ]
    wrong = [(vector, value) for vector, value in examples if value != vector["bucket_16"]]
    assert not wrong, wrong


def test_transforms_of_columns(spark: SparkSession, uri: str) -> None:
    count = 40
    table = pa.table(
        {
            "row": pa.array(range(count)),
            "long": pa.array([None, *((number - 20) * 997 for number in range(1, count))], pa.int64()),
            "int": pa.array([(number - 20) * 7 for number in range(count)], pa.int32()),
            "short": pa.array([(number - 20) * 3 for number in range(count)], pa.int16()),
            "byte": pa.array([number - 20 for number in range(count)], pa.int8()),
            "text": pa.array([None, *("äö🎈ab"[: number % 6] for number in range(1, count))]),
            "decimal": pa.array(
                [Decimal(number - 20) * Decimal("7.77") for number in range(count)], pa.decimal128(12, 2)
            ),
            "ts": pa.array(
                [None, *(START + timedelta(hours=number * 7) for number in range(1, count))], pa.timestamp("us", "UTC")
            ),
            "ntz": pa.array(
                [datetime(1968, 2, 28) + timedelta(days=number * 61) for number in range(count)], pa.timestamp("us")
            ),
            "date": pa.array([date(1967, 12, 31) + timedelta(days=number * 40) for number in range(count)]),
        }
    )
    expected: dict[str, pa.Array] = {}
    for name in ("long", "int", "short", "byte", "text", "decimal"):
        expected[f"lance.truncate(3, {name})"] = expected[f"lance.truncate_3({name})"] = Truncate(3).apply(
            table[name].combine_chunks()
        )
        expected[f"lance.bucket(7, {name})"] = Bucket(7).apply(table[name].combine_chunks())
    for name in ("ts", "ntz", "date"):
        values = table[name].combine_chunks()
        parts = {key: part for key, part in PARTS.items() if name != "date" or key != "hour"}
        applied = [part.apply(values) for part in parts.values()]
        for depth, (key, part) in enumerate(zip(parts, applied, strict=True), 1):
            expected[f"lance.{key}({name})"] = part
            expected[f"lance.{key}s({name})"] = ordinals(applied[:depth])
    pair = [table["long"].combine_chunks(), table["text"].combine_chunks()]
    expected["lance.multi_bucket(9, long, text)"] = MultiBucket(9).apply(*pair)
    rows = read(spark, uri, table, list(expected))
    for place, (expression, values) in enumerate(expected.items()):
        assert [row[place] for row in rows] == values.to_pylist(), expression


def test_coarser_periods_agree() -> None:
    days = ordinals([pa.array([1969, 2024]), pa.array([12, 2]), pa.array([31, 29])])
    assert days.to_pylist() == [-1, 19782]
    assert CoarserTime(Level.DAY, Level.MONTH).apply(days).to_pylist() == [-1, 649]


@pytest.mark.parametrize(
    "call",
    ["bucket('a', 1)", "bucket(4, array(1))", "years(1)", "hours(date'2024-01-01')", "truncate(2, 1.5D)", "none(1)"],
)
def test_other_arguments_are_refused(spark: SparkSession, call: str) -> None:
    with pytest.raises(PySparkException):
        spark.sql(f"SELECT lance.{call}")
