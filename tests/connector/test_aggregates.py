"""MIN, MAX and COUNT by tasks: one row each, and what Spark makes of the rows of all."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.connector.conftest import plan

COLUMNS = ("tiny", "big", "day", "moment", "price", "wide", "name")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments of four rows, nulls everywhere, the last fragment all null but for its ids, a row deleted."""
    uri = str(tmp_path_factory.mktemp("aggregates") / "table")
    rows: list[dict[str, object]] = []
    for number in range(12):
        gone = number >= 8 or number % 4 == 1
        rows.append(
            {
                "id": number,
                "tiny": None if gone else number * 17 % 9 - 4,
                "big": None if gone else (-1) ** number * (2**62 + number),
                "day": None if gone else date(1960 + number * 7 % 20, 1, 1 + number),
                "moment": None if gone else datetime(1969, 12, 31, 23, 59, 50 + number, 7, tzinfo=timezone.utc),
                "price": None if gone else Decimal((-1) ** number * (number + 1)).scaleb(-2),
                "wide": None if gone else Decimal(f"{'-' * (number % 2)}{10**28 + number}.25"),
                "name": None if gone else ["é", "e", "z", "", "ez", "Z", "\U0001f600", "ﬀ"][number],
                "fraction": [1.0, float("nan"), -0.0, 0.0][number % 4],
            }
        )
    kinds = {
        "id": pa.int64(),
        "tiny": pa.int8(),
        "big": pa.int64(),
        "day": pa.date32(),
        "moment": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(9, 2),
        "wide": pa.decimal128(38, 2),
        "name": pa.string(),
        "fraction": pa.float64(),
    }
    made = lance.write_dataset(pa.Table.from_pylist(rows, pa.schema(kinds.items())), uri, max_rows_per_file=4)
    made.delete("id = 2")
    return uri


def answered(frame: DataFrame) -> bool:
    """Whether the tasks aggregate."""
    return "aggregates=[" in plan(frame)


@pytest.mark.parametrize(
    "condition", ["true", "id < 3", "id >= 8", "id > 100", "name >= 'e' AND tiny <> 0", "big IS NULL"]
)
def test_rows_are_those_of_spark(spark: SparkSession, table: str, condition: str) -> None:
    asked = [f"{kind}({name})" for name in COLUMNS for kind in ("min", "max", "count")]
    read = spark.read.format("lance").load(table).where(condition)
    pushed = read.selectExpr(*asked, "count(*)")
    # A fraction is not aggregated by tasks, and nothing with it.
    plain = read.selectExpr(*asked, "count(*)", "max(fraction)")
    assert answered(pushed)
    assert not answered(plain)
    assert pushed.first() == plain.first()[:-1]


def test_what_tasks_do_not_aggregate(spark: SparkSession, table: str) -> None:
    read = spark.read.format("lance").load(table)
    assert not answered(read.selectExpr("min(fraction)"))
    assert str(read.selectExpr("max(fraction)").first()[0]) == "nan"
    assert not answered(read.selectExpr("count(DISTINCT tiny)", "max(tiny)"))
    assert not answered(read.groupBy("tiny").count())
    assert not answered(read.selectExpr("max(tiny + 1)"))
    # Spark has to look at the rows first.
    assert not answered(read.where("rand() >= 0.5").selectExpr("max(id)"))
    assert not answered(spark.read.format("lance").option("limit", "2").load(table).selectExpr("max(id)"))
    assert spark.read.format("lance").option("limit", "2").load(table).selectExpr("max(id)").first() == (1,)


def test_a_table_without_rows(spark: SparkSession, uri: str) -> None:
    spark.range(0).selectExpr("id", "CAST(id AS STRING) AS name").write.format("lance").save(uri)
    counted = spark.read.format("lance").load(uri).selectExpr("count(name)", "min(name)", "max(id)", "count(*)")
    assert answered(counted)
    assert counted.first() == (0, None, None, 0)


def test_aggregates_within_larger_queries(spark: SparkSession, table: str) -> None:
    spark.read.format("lance").load(table).createOrReplaceTempView("aggregated")
    rows = spark.sql("SELECT id FROM aggregated WHERE id = (SELECT max(id) FROM aggregated WHERE tiny IS NOT NULL)")
    assert [row.id for row in rows.collect()] == [7]
    both = spark.sql("SELECT max(id) AS m FROM aggregated UNION ALL SELECT min(id) FROM aggregated HAVING count(*) > 3")
    assert sorted(row.m for row in both.collect()) == [0, 11]
    assert spark.sql("SELECT max(id) - min(id) + count(tiny) FROM aggregated LIMIT 3").first() == (16,)
