"""Joins of partitioned tables without a shuffle: the plan has none, and the rows are those of a join with one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark.partitioned.evolution import set_partitioning
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import Day, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from tests.partitioned.verbs import delete_rows, save_rows
from tests.support.connector.plans import plan

pytestmark = pytest.mark.tasks

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "how"), [*((case, "inner") for case in CASES), *(("identity", how) for how in HOWS[1:])]
)
def test_no_shuffle(spark: SparkSession, tmp_path: Path, case: str, how: str) -> None:
    by_left, by_right, on = CASES[case]
    left, right = table(tmp_path / "l", *by_left), table(tmp_path / "r", *by_right, count=30, step=2)

    check(
        spark,
        lambda: joined(
            spark.read.format("lance").load(left), spark.read.format("lance").load(right).drop("x"), on, how
        ),
    )


def check(spark: SparkSession, frame: Callable[[], DataFrame]) -> None:
    """The query has no shuffle, and the rows that it has with one."""
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


def load(spark: SparkSession, uri: str) -> DataFrame:
    return spark.read.format("lance").load(uri)


@pytest.mark.slow
def test_more_join_keys_than_partition_keys(spark: SparkSession, tmp_path: Path) -> None:
    left, right = table(tmp_path / "l", NAME), table(tmp_path / "r", NAME, count=20, step=2)
    check(spark, lambda: joined(load(spark, left), load(spark, right).drop("x"), "id,name", "inner"))


@pytest.mark.slow
def test_self_join(spark: SparkSession, tmp_path: Path) -> None:
    uri = table(tmp_path / "t", BUCKET[4])
    check(spark, lambda: joined(load(spark, uri), load(spark, uri).select("id", "x"), "id", "left_outer"))


@pytest.mark.slow
def test_three_tables(spark: SparkSession, tmp_path: Path) -> None:
    uris = [table(tmp_path / str(step), BUCKET[4], count=20, step=step) for step in (1, 2, 3)]

    def frame() -> DataFrame:
        first, second, third = (load(spark, uri).select("id") for uri in uris)
        return joined(joined(first, second, "id", "inner"), third, "id", "left_outer")

    check(spark, frame)


@pytest.mark.slow
def test_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    uri = table(tmp_path / "t", NAME, BUCKET[4])
    check(spark, lambda: load(spark, uri).groupBy("name", "id").count())
    check(spark, lambda: load(spark, uri).groupBy("name").sum("x"))


@pytest.mark.slow
def test_skewed_partitions_are_split(spark: SparkSession, tmp_path: Path) -> None:
    left, right = table(tmp_path / "l", NAME), table(tmp_path / "r", NAME, count=20)
    for _ in range(3):
        save_rows(open_partitioned(left), rows(10))
    setting = "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled"
    spark.conf.set(setting, "true")
    try:
        options = {"target_partition_bytes": "1"}
        check(
            spark,
            lambda: joined(
                spark.read.format("lance").options(**options).load(left), load(spark, right).drop("x"), "name", "inner"
            ),
        )
    finally:
        spark.conf.unset(setting)


@pytest.mark.slow
def test_after_changes(spark: SparkSession, tmp_path: Path) -> None:
    left, right = table(tmp_path / "l", BUCKET[4]), table(tmp_path / "r", BUCKET[8], count=20)
    save_rows(open_partitioned(left), rows(15, step=5))
    delete_rows(open_partitioned(left), "id < 4")
    check(spark, lambda: joined(load(spark, left), load(spark, right).drop("x"), "id", "full_outer"))


@pytest.mark.slow
def test_several_specs(spark: SparkSession, tmp_path: Path) -> None:
    """Their common keys count; partitions of another number of buckets have none in common."""
    left, right = table(tmp_path / "l", BUCKET[4]), table(tmp_path / "r", BUCKET[4], count=20)
    save_rows(set_partitioning(open_partitioned(left), [NAME, BUCKET[4]]), rows(20, step=3))
    check(spark, lambda: joined(load(spark, left), load(spark, right).drop("x"), "id", "inner"))
    other = PartitionBy("other", ("id",), Bucket(3))
    save_rows(set_partitioning(open_partitioned(left), [other]), rows(5))
    frame = load(spark, left)
    assert "partitioning=none (partitions of several specs have no key in common)" in plan(frame)
    assert "Exchange" in plan(joined(frame, load(spark, right).drop("x"), "id", "inner"))


def test_reason_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    uri = table(tmp_path / "t", PartitionBy("both", ("id", "name"), MultiBucket(4)))
    assert "partitioning=none (no partition field" in plan(load(spark, uri))
    uri = table(tmp_path / "u", BUCKET[4])
    assert "partitioning=[bucket(id)]" in plan(load(spark, uri))
    assert "partitioning=none (no partition field" in plan(load(spark, uri).select("x"))


@pytest.mark.slow
def test_merge_without_a_shuffle_of_the_target(spark: SparkSession, tmp_path: Path) -> None:
    target, source = table(tmp_path / "t", BUCKET[4]), table(tmp_path / "s", BUCKET[4], count=12, step=5)
    load(spark, source).createOrReplaceTempView("changes")
    version = open_partitioned(target).version
    spark.sql(
        f"MERGE INTO lance.`{target}` t USING changes s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET x = -s.x WHEN NOT MATCHED THEN INSERT *"
    )
    assert open_partitioned(target).version == version + 1
    known = {row["id"]: row["x"] for row in rows(12, step=5).to_pylist() if row["id"] is not None}
    found = {row["id"]: row["x"] for row in load(spark, target).collect() if row["id"] in known}
    there = {row["id"] for row in rows(40).to_pylist()}
    assert found == {key: -value if key in there else value for key, value in known.items()}
