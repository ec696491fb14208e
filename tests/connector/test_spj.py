"""Joins of partitioned tables without a shuffle: the plan has none, and the rows are those of a join with one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark.namespace.partition_save import PartitionBy, create_partitioned, save_rows
from lance_spark.namespace.transforms.bucket import Bucket
from lance_spark.namespace.transforms.day import Day
from lance_spark.namespace.transforms.identity import Identity
from lance_spark.namespace.transforms.month import Month
from lance_spark.namespace.transforms.truncate import Truncate
from lance_spark.namespace.transforms.year import Year
from tests.connector.conftest import plan

ENABLED = "spark.sql.sources.v2.bucketing.enabled"
START = datetime(2024, 12, 20, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("x", pa.float64()),
    ]
)


def rows(count: int, step: int = 1) -> pa.Table:
    """Every 7th row has nulls."""
    listed = [
        {
            "id": None if number % 7 == 6 else number * step,
            "name": None if number % 7 == 6 else f"name {number * step % 5}",
            "ts": None if number % 7 == 6 else START + timedelta(days=number * step % 4 * 11),
            "x": float(number),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(listed, SCHEMA)


def table(root: Path, *by: PartitionBy, count: int = 40, step: int = 1) -> str:
    made = create_partitioned(str(root), SCHEMA, by)
    save_rows(made, rows(count, step))
    return str(root)


BUCKET = {number: PartitionBy("id_bucket", ("id",), Bucket(number)) for number in (4, 8, 12, 16)}
YEAR, MONTH, DAY = (
    PartitionBy(name, ("ts",), transform) for name, transform in (("year", Year()), ("month", Month()), ("day", Day()))
)
NAME = PartitionBy("name", ("name",), Identity())
PREFIX = PartitionBy("prefix", ("name",), Truncate(6))

CASES = {
    "bucket": ((BUCKET[16],), (BUCKET[16],), "id"),
    "bucket 16 and 8": ((BUCKET[16],), (BUCKET[8],), "id"),
    "bucket 16 and 12": ((BUCKET[16],), (BUCKET[12],), "id"),
    "identity": ((NAME,), (NAME,), "name"),
    "truncate": ((PREFIX,), (PREFIX,), "name"),
    "days": ((YEAR, MONTH, DAY), (YEAR, MONTH, DAY), "ts"),
    "days and months": ((YEAR, MONTH, DAY), (YEAR, MONTH), "ts"),
    "years and days": ((YEAR,), (YEAR, MONTH, DAY), "ts"),
    "two keys": ((NAME, BUCKET[4]), (NAME, BUCKET[4]), "name,id"),
    "one of two keys": ((NAME, BUCKET[4]), (NAME, BUCKET[4]), "id"),
}


def joined(left: DataFrame, right: DataFrame, on: str, how: str) -> DataFrame:
    return left.hint("merge").join(right, on.split(","), how)


def result(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


HOWS = ["inner", "left_outer", "full_outer", "left_semi", "left_anti"]


@pytest.mark.parametrize(
    ("case", "how"), [*((case, "inner") for case in CASES), *(("identity", how) for how in HOWS[1:])]
)
def test_no_shuffle(spark: SparkSession, tmp_path: Path, case: str, how: str) -> None:
    by_left, by_right, on = CASES[case]
    left, right = table(tmp_path / "l", *by_left), table(tmp_path / "r", *by_right, count=30, step=2)

    def frame() -> DataFrame:
        return joined(spark.read.format("lance").load(left), spark.read.format("lance").load(right).drop("x"), on, how)

    without = frame()
    assert "Exchange" not in plan(without), plan(without)
    rows_without = result(without)
    spark.conf.set(ENABLED, "false")
    try:
        shuffled = frame()
        assert "Exchange" in plan(shuffled)
        assert rows_without == result(shuffled)
    finally:
        spark.conf.set(ENABLED, "true")
    assert rows_without
