"""Filters that Spark pushes: what is taken, what it means, and why it is taken on request only."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark

pytestmark = pytest.mark.since("4.1", "filters of Python data sources")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    rows = {
        "id": pa.array(range(1000), pa.int64()),
        "name": [None if i % 7 == 0 else f"name {i}" for i in range(1000)],
        "ratio": pa.array([float("nan") if i % 5 == 0 else i / 10 for i in range(1000)]),
        "nanos": pa.array([i * 1001 for i in range(1000)], pa.timestamp("ns")),
        "point": [{"x": i} for i in range(1000)],
    }
    lance_spark.write(pa.table(rows), uri, max_rows_per_file=300)
    return uri


def load(spark: SparkSession, uri: str, push: bool = True) -> DataFrame:
    return spark.read.format("lance").option("pushDownFilters", str(push).lower()).load(uri)


def plan(frame: DataFrame) -> str:
    return frame.sparkSession._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


CONDITIONS = [
    "id >= 10 AND id < 20",
    "id IN (1, 2, 3000)",
    "NOT id IN (1, 2, 3)",
    "name IS NULL",
    "name IS NOT NULL AND id < 30",
    "name LIKE 'name 99%'",
    "name LIKE '%9'",
    "name LIKE '%me 5%'",
    "name <=> NULL",
    "NOT (name <=> 'name 1')",
    "NOT (name = 'name 1')",
    "ratio > 99.0",
    "ratio = double('NaN')",
    "ratio <> 1.1",
    "point.x > 990",
    "id > 990 OR id = 1",
    "id % 100 = 3",
    "nanos = timestamp_ntz'1970-01-01 00:00:00.000001'",
    "nanos > timestamp_ntz'1970-01-01 00:00:00.000900'",
]


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_pushed_filters_mean_what_spark_means(pushdown: SparkSession, uri: str, condition: str) -> None:
    expected = ids(load(pushdown, uri, push=False).where(condition))
    assert ids(load(pushdown, uri).where(condition)) == expected


@pytest.mark.slow
def test_pushed_filters_leave_the_plan(pushdown: SparkSession, uri: str) -> None:
    frame = load(pushdown, uri).where("id >= 10 AND id < 20 AND id % 2 = 0")
    text = plan(frame)
    assert "GreaterThanOrEqual(id,10)" in text
    assert "LessThan(id,20)" in text
    assert "id#" in text.split("Filter [codegen id : 1]")[-1]
    assert frame.count() == 5


def test_nothing_is_pushed_unless_asked_for(pushdown: SparkSession, uri: str) -> None:
    frame = pushdown.read.format("lance").load(uri)
    assert "GreaterThanOrEqual" not in plan(frame.where("id >= 10"))


@pytest.mark.slow
@pytest.mark.parametrize("switch", ["true", "false"])
def test_a_frame_used_twice_gives_all_rows(spark: SparkSession, uri: str, switch: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", switch)
    try:
        frame = spark.read.format("lance").load(uri)
        assert frame.where("id < 10").count() == 10
        assert frame.count() == 1000
        both = frame.where("id < 10").union(frame.where("id >= 990")).union(frame)
        assert both.agg(F.count("id")).first()[0] == 1020
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.slow
def test_spark_still_shares_one_plan_among_the_queries_of_a_frame(pushdown: SparkSession, uri: str) -> None:
    """A fact about Spark. When it changes, pushing can be the default (docs/design/028-filters-of-the-plug-in.md)."""
    frame = load(pushdown, uri)
    assert frame.where("id < 10").count() == 10
    assert frame.count() == 10, "Spark keeps the plans of several queries apart now"
