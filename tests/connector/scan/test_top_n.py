"""ORDER BY with LIMIT inside of the scan, beside the same query on Parquet."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.connector.plans import plan
from tests.support.connector.runtime_filters import scans

pytestmark = pytest.mark.tasks

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


@pytest.fixture(scope="module")
def many(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """So many rows that a task sorts several times, in both formats."""
    folder = tmp_path_factory.mktemp("many")
    frame = spark.range(0, 300_000, numPartitions=2).selectExpr(
        "id",
        "id % 3 AS few",
        "CASE WHEN id % 1000 < 3 THEN NULL ELSE id * 7919 % 20011 END AS some",
        "CASE WHEN id % 900 = 7 THEN NULL WHEN id % 700 = 11 THEN double('NaN') WHEN id % 2 = 0 THEN -0.0D "
        "ELSE (id * 37 % 70001) / 8.0 - 9 END AS f",
        "concat('name ', id * 31 % 90001) AS name",
        "CASE WHEN id % 100000 = 5 THEN id END AS none",
    )
    frame.write.format("lance").save(f"{folder}/lance")
    lance.dataset(f"{folder}/lance").delete("id % 10 = 9")
    frame.where("id % 10 <> 9").write.parquet(f"{folder}/parquet")
    spark.read.format("lance").load(f"{folder}/lance").createOrReplaceTempView("many_ours")
    spark.read.parquet(f"{folder}/parquet").createOrReplaceTempView("many_theirs")
    yield
    for name in ("many_ours", "many_theirs"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("direction", ["ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"])
@pytest.mark.parametrize("first", ["few", "some", "f", "name", "none"])
def test_several_keys_of_many_rows(spark: SparkSession, many: None, first: str, direction: str) -> None:
    for limit in (1, 20, 9_000):
        query = f"SELECT * FROM {{}} WHERE few < 2 ORDER BY {first} {direction}, name DESC, id LIMIT {limit}"
        found = spark.sql(query.format("many_ours"))
        assert f"top={limit}" in plan(found)
        assert list(map(str, found.collect())) == list(map(str, spark.sql(query.format("many_theirs")).collect()))


def test_other_keys_are_read_for_few_rows_alone(spark: SparkSession, many: None) -> None:
    frame = spark.sql("SELECT id, name FROM many_ours ORDER BY id DESC, name LIMIT 5")
    assert [row.id for row in frame.collect()] == [299_998, 299_997, 299_996, 299_995, 299_994]
    one = spark.sql("SELECT id FROM many_ours ORDER BY id DESC LIMIT 5")
    one.collect()
    assert bytes_read(frame) < 2 * bytes_read(one)


def bytes_read(frame: DataFrame) -> int:
    (scan,) = scans(frame)
    return scan["bytes_read"]
