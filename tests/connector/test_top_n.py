"""ORDER BY with LIMIT inside of the scan, beside the same query on Parquet."""

from __future__ import annotations

from collections.abc import Iterator

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


@pytest.fixture(scope="module")
def parts(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> Iterator[str]:
    """The rows of the tables in four partitions, each of a large fragment and one of one row."""
    tables[1].createOrReplaceTempView("theirs")
    spark.sql("CREATE TABLE lance.top PARTITIONED BY (bucket(4, id)) AS SELECT * FROM theirs WHERE id % 50 <> 48")
    spark.sql("INSERT INTO lance.top SELECT * FROM theirs WHERE id % 50 = 48 OR id > 390")
    spark.sql("DELETE FROM lance.top WHERE id > 390")
    yield "lance.top"
    spark.sql("DROP TABLE lance.top")


@pytest.mark.parametrize("order", ORDERS)
def test_the_first_rows_of_partitions(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], parts: str, order: str
) -> None:
    tables[1].where("id <= 390").createOrReplaceTempView("theirs")
    query = "SELECT * FROM {} WHERE id > 20 ORDER BY " + order + " LIMIT 25"
    found = spark.sql(query.format(parts))
    assert "top=25" in plan(found)
    assert list(map(str, found.collect())) == list(map(str, spark.sql(query.format("theirs")).collect()))


def test_first_rows_with_their_partitions(spark: SparkSession, parts: str) -> None:
    homes = {row.id: row._partition for row in spark.table(parts).select("id", "_partition").collect()}
    found = spark.table(parts).select("name", "_partition", "id").orderBy("id").limit(9)
    assert "top=9" in plan(found)
    assert [(row.id, row._partition) for row in found.collect()] == [(key, homes[key]) for key in range(9)]
    assert spark.table(parts).where("id > 1000").orderBy("id").limit(3).collect() == []
    assert "top=" not in plan(spark.table(parts).orderBy("_partition").limit(3))
    assert len(spark.table(parts).orderBy("_partition").limit(3).collect()) == 3


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
