"""ORDER BY with LIMIT inside of the scan, beside the same query on Parquet."""

from __future__ import annotations

import lance
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.connector.conftest import plan

ORDERS = [
    "id DESC",
    "f ASC NULLS LAST, id",
    "f DESC NULLS FIRST, id DESC",
    "name DESC NULLS LAST, id",
    "s.x NULLS FIRST, id",
    "dec DESC, id",
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    folder = tmp_path_factory.mktemp("top")
    frame = spark.range(0, 400, numPartitions=4).selectExpr(
        "id",
        "CASE WHEN id % 7 = 0 THEN NULL WHEN id % 11 = 0 THEN double('NaN') ELSE (id * 37 % 101) / 4.0 - 9 END AS f",
        "CASE WHEN id % 5 = 0 THEN NULL ELSE concat(chr(65 + id % 26), id) END AS name",
        "struct(CASE WHEN id % 3 = 0 THEN NULL ELSE id * 17 % 53 END AS x, id AS y) AS s",
        "cast(id * 13 % 97 AS DECIMAL(10, 2)) AS dec",
    )
    frame.write.format("lance").save(f"{folder}/lance")
    lance.dataset(f"{folder}/lance").delete("id % 10 = 9")
    frame.where("id % 10 <> 9").write.parquet(f"{folder}/parquet")
    return spark.read.format("lance").load(f"{folder}/lance"), spark.read.parquet(f"{folder}/parquet")


@pytest.mark.parametrize("order", ORDERS)
def test_the_first_rows_are_those_of_spark(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], order: str
) -> None:
    ours, theirs = tables
    ours.createOrReplaceTempView("ours")
    theirs.createOrReplaceTempView("theirs")
    query = "SELECT * FROM {} WHERE id > 20 ORDER BY " + order + " LIMIT 25"
    found = spark.sql(query.format("ours"))
    assert "top=25" in plan(found)
    assert list(map(str, found.collect())) == list(map(str, spark.sql(query.format("theirs")).collect()))


def test_an_order_that_is_not_ours_stays_with_spark(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> None:
    found = tables[0].orderBy("s").limit(3)
    assert "top=" not in plan(found)
    assert len(found.collect()) == 3
    assert "top=" not in plan(tables[0].orderBy("id").limit(100_000))


def test_system_columns_choose_fragments(tables: tuple[DataFrame, DataFrame]) -> None:
    found = tables[0].where("_fragid = 2")
    assert "fragments=1/4" in plan(found)
    assert found.count() == 90
    one = tables[0].where("_rowaddr = 4294967296")
    assert "fragments=1/4" in plan(one)
    assert [row.id for row in one.collect()] == [100]
