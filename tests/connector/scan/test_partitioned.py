"""Partitioned tables from Spark: made, written to, read with pruning, and changed; pylance opens every partition."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.spark.connector.catalog.partition_by import fields_of_statement
from lance_spark.spark.predicates import SparkExpression
from tests.support.connector.plans import plan

VALUES = """
    (1, 'ann', 'de', timestamp'2024-01-31 23:00:00', 1.0),
    (2, 'bob', 'de', timestamp'2024-02-01 01:00:00', 2.0),
    (3, 'cleo', 'fr', timestamp'2023-06-01 00:00:00', 3.0),
    (null, null, null, null, 4.0)
"""
COLUMNS = "id bigint, name string, country string, ts timestamp, x double"


def whole(root: str, name: str) -> PartitionedTable:
    return open_partitioned(DirectoryNamespace(root).table_location((name,)).uri)


def rows_of_pylance(table: PartitionedTable) -> list[tuple[object, ...]]:
    """What the reference library finds in the partitions, at the versions that count."""
    found: list[tuple[object, ...]] = []
    for opened in table.open_all(table.partitions()):
        listed = lance.dataset(opened.table.store.uri, version=opened.manifest.version).to_table().to_pylist()
        found += [tuple(row.values()) for row in listed]
    return sorted(found, key=str)


def listed(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    yield "parts"
    spark.sql("DROP TABLE IF EXISTS lance.parts")


@pytest.mark.parametrize(
    ("by", "fields", "partitions"),
    [
        ("bucket(4, id)", ["id_bucket_4"], None),
        ("truncate(2, name)", ["name_truncate_2"], 4),
        ("country", ["country"], 3),
        ("multi_bucket(8, id, name)", ["id_name_multi_bucket_8"], None),
        ("country, days(ts), bucket(2, id)", ["country", "ts_year", "ts_month", "ts_day", "id_bucket_2"], 4),
    ],
)
def test_create_and_insert(
    spark: SparkSession, root: str, name: str, by: str, fields: list[str], partitions: int | None
) -> None:
    spark.sql(f"CREATE TABLE lance.{name} ({COLUMNS}) PARTITIONED BY ({by})")
    assert listed(spark.table(f"lance.{name}")) == []
    before = whole(root, name)
    assert [field.field_id for field in before.specs.current.fields] == fields
    spark.sql(f"INSERT INTO lance.{name} VALUES {VALUES}")
    after = whole(root, name)
    assert after.version == before.version + 1
    assert partitions in (None, len(after.partitions()))
    expected = sorted([tuple(row) for row in spark.sql(f"SELECT * FROM VALUES {VALUES}").collect()], key=str)
    assert listed(spark.table(f"lance.{name}")) == expected
    assert len(rows_of_pylance(after)) == 4
    # One file a partition: rows were clustered by the same values.
    assert all(len(opened.manifest.fragments) == 1 for opened in after.open_all(after.partitions()))


@pytest.mark.parametrize(
    ("transforms", "fields"),
    [
        ([("years", "ts")], ["ts_year"]),
        ([("months", "ts")], ["ts_year", "ts_month"]),
        ([("hours", "ts")], ["ts_year", "ts_month", "ts_day", "ts_hour"]),
        ([("year", "ts"), ("days", "ts")], ["ts_year", "ts_month", "ts_day"]),
        ([("truncate", "name", 3)], ["name_truncate_3"]),
        ([("truncate", 3, "name")], ["name_truncate_3"]),
        ([("bucket", 4, "a.b"), ("bucket", 4, "a_b")], ["a_b_bucket_4", "a_b_bucket_4_2"]),
    ],
)
def test_fields(transforms: list[tuple[str, ...]], fields: list[str]) -> None:
    given = [
        SparkExpression(
            transform=name,
            children=tuple(
                SparkExpression(column=tuple(item.split(".")))
                if isinstance(item, str)
                else SparkExpression(literal=str(item))
                for item in arguments
            ),
        )
        for name, *arguments in transforms
    ]
    assert [field.field_id for field in fields_of_statement(given)] == fields


@pytest.mark.parametrize(
    "rows", ["(id BIGINT, k STRING) PARTITIONED BY (k)", "PARTITIONED BY (k) AS SELECT 1 AS id, 'a' AS k"]
)
def test_the_name_of_a_namespace(spark: SparkSession, root: str, rows: str) -> None:
    spark.sql("CREATE NAMESPACE lance.taken")
    before = sorted(os.listdir(root))
    with pytest.raises(AnalysisException, match="taken exists already; it is a namespace"):
        spark.sql(f"CREATE TABLE lance.taken {rows}")
    assert sorted(os.listdir(root)) == before
    spark.sql("DROP NAMESPACE lance.taken")


def test_create_as_select(spark: SparkSession, root: str, name: str) -> None:
    frame = spark.range(20).selectExpr("id", "cast(id % 3 as string) as k")
    frame.writeTo(f"lance.{name}").partitionedBy(frame.k).create()
    table = whole(root, name)
    assert len(table.partitions()) == 3
    assert listed(spark.table(f"lance.{name}")) == listed(frame)
    assert name in [row.tableName for row in spark.sql("SHOW TABLES IN lance").collect()]
    with pytest.raises(PySparkException, match="already exists"):
        spark.sql(f"CREATE TABLE lance.{name} (id bigint) PARTITIONED BY (id)")


def test_failed_create_leaves_nothing(spark: SparkSession, root: str) -> None:
    before = sorted(Path(root).iterdir())
    with pytest.raises(PySparkException):
        spark.sql(
            "CREATE TABLE lance.broken PARTITIONED BY (k) AS "
            "SELECT id, if(id = 3, raise_error('no'), 'a') AS k FROM range(5)"
        )
    # Spark may still be killing other tasks, and the driver looks again for what they leave.
    end = time.monotonic() + 30
    while sorted(Path(root).iterdir()) != before and time.monotonic() < end:
        time.sleep(0.1)
    assert sorted(Path(root).iterdir()) == before
    assert not spark.catalog.tableExists("lance.broken")


def test_replace_keeps_partitions(spark: SparkSession, root: str, name: str) -> None:
    spark.sql(f"CREATE TABLE lance.{name} PARTITIONED BY (k) AS SELECT 1L AS id, 'a' AS k")
    before = whole(root, name).version
    spark.sql(f"CREATE OR REPLACE TABLE lance.{name} PARTITIONED BY (k) AS SELECT 2L AS id, 'b' AS k")
    assert listed(spark.table(f"lance.{name}")) == [(2, "b")]
    assert whole(root, name).version == before + 1


@pytest.mark.slow
def test_overwrites(spark: SparkSession, root: str, name: str) -> None:
    spark.sql(f"CREATE TABLE lance.{name} (id bigint, k string) PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO lance.{name} VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    spark.sql(f"INSERT OVERWRITE lance.{name} PARTITION (k = 'b') SELECT 4L")
    assert listed(spark.table(f"lance.{name}")) == [(1, "a"), (4, "b")]
    spark.createDataFrame([(5, "a"), (6, "c")], "id bigint, k string").writeTo(f"lance.{name}").overwritePartitions()
    assert listed(spark.table(f"lance.{name}")) == [(4, "b"), (5, "a"), (6, "c")]
    spark.sql(f"INSERT INTO lance.{name} REPLACE WHERE id > 4 SELECT 7L, 'a'")
    assert listed(spark.table(f"lance.{name}")) == [(4, "b"), (7, "a")]
    spark.sql(f"INSERT OVERWRITE lance.{name} VALUES (8, 'z')")
    assert listed(spark.table(f"lance.{name}")) == [(8, "z")]
    version = whole(root, name).version
    assert listed(spark.sql(f"SELECT * FROM lance.{name} VERSION AS OF {version - 1}")) == [(4, "b"), (7, "a")]
    spark.sql(f"TRUNCATE TABLE lance.{name}")
    assert listed(spark.table(f"lance.{name}")) == []
    assert whole(root, name).version == version + 1
    spark.sql(f"TRUNCATE TABLE lance.{name}")
    assert whole(root, name).version == version + 1
    assert len(rows_of_pylance(open_partitioned(whole(root, name).root, version=version))) == 1


def test_delete_update_merge(spark: SparkSession, root: str, name: str) -> None:
    spark.sql(f"CREATE TABLE lance.{name} (id bigint, k string) PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO lance.{name} VALUES (1, 'a'), (2, 'b'), (3, 'b'), (4, 'c')")
    version = whole(root, name).version
    spark.sql(f"DELETE FROM lance.{name} WHERE k = 'c'")
    spark.sql(f"UPDATE lance.{name} SET k = 'a' WHERE id = 3")
    spark.sql(
        f"MERGE INTO lance.{name} t USING (SELECT * FROM VALUES (1, 'z'), (9, 'n') AS s(id, k)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET k = s.k WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [(1, "z"), (2, "b"), (3, "a"), (9, "n")]
    assert listed(spark.table(f"lance.{name}")) == expected
    assert whole(root, name).version == version + 3
    assert rows_of_pylance(whole(root, name)) == expected


def test_pruning_is_shown(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE lance.{name} ({COLUMNS}) PARTITIONED BY (country, days(ts))")
    spark.sql(f"INSERT INTO lance.{name} VALUES {VALUES}")
    frame = spark.table(f"lance.{name}").where("ts >= timestamp'2024-02-01' and country = 'de'").select("id")
    assert "partitions=1/4" in plan(frame)
    assert frame.collect() == [Row(id=2)]
    frame = spark.table(f"lance.{name}").where("country is null")
    assert "partitions=1/4" in plan(frame)
    assert frame.count() == 1


def test_paths(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "by_path")
    frame = spark.range(6).selectExpr("id", "id % 2 as k")
    frame.write.format("lance").partitionBy("k").save(uri)
    assert listed(spark.read.format("lance").load(uri)) == listed(frame)
    frame.write.format("lance").mode("append").save(uri)
    assert spark.read.format("lance").load(uri).count() == 12
    frame.write.format("lance").mode("overwrite").save(uri)
    assert spark.read.format("lance").load(uri).count() == 6
    assert spark.read.format("lance").option("version", open_partitioned(uri).version - 1).load(uri).count() == 12


def test_describe(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE lance.{name} ({COLUMNS}) PARTITIONED BY (bucket(4, id), days(ts), truncate(2, name))")
    described = "\n".join(" ".join(map(str, row)) for row in spark.sql(f"DESCRIBE EXTENDED lance.{name}").collect())
    assert "bucket(4, id)" in described
    assert "day(ts)" in described
    spark.sql(f"INSERT INTO lance.{name} VALUES {VALUES}")
    shown = [row.partition for row in spark.sql(f"SHOW PARTITIONS lance.{name}").collect()]
    assert len(shown) == 4
    assert sum("ts_year=2024/ts_month=1/ts_day=31/name_truncate_2=an" in text for text in shown) == 1


@pytest.mark.parametrize(
    "by", ["bucket(0, id)", "bucket(4, id, name)", "nothing(id)", "years(id)", "days(id)", "country, country"]
)
def test_refused(spark: SparkSession, root: str, by: str) -> None:
    before = sorted(Path(root).iterdir())
    with pytest.raises(PySparkException):
        spark.sql(f"CREATE TABLE lance.refused ({COLUMNS}) PARTITIONED BY ({by})")
    assert sorted(Path(root).iterdir()) == before


def test_alter_columns(spark: SparkSession, root: str, name: str) -> None:
    spark.sql(f"CREATE TABLE lance.{name} ({COLUMNS}) USING lance PARTITIONED BY (country)")
    spark.sql(f"INSERT INTO lance.{name} VALUES {VALUES}")
    before = whole(root, name).version
    spark.sql(f"ALTER TABLE lance.{name} ADD COLUMNS (note string COMMENT 'why', n int)")
    spark.sql(f"ALTER TABLE lance.{name} RENAME COLUMN x TO price")
    spark.sql(f"ALTER TABLE lance.{name} DROP COLUMN name")
    spark.sql(f"ALTER TABLE lance.{name} ALTER COLUMN n TYPE bigint")
    assert whole(root, name).version == before + 4
    assert spark.table(f"lance.{name}").columns == ["id", "country", "ts", "price", "note", "n"]
    spark.sql(f"INSERT INTO lance.{name} VALUES (5, 'it', null, 5.0, 'new', 7)")
    found = spark.sql(f"SELECT id, price, note, n FROM lance.{name} ORDER BY price").collect()
    assert [tuple(row) for row in found] == [
        (1, 1.0, None, None),
        (2, 2.0, None, None),
        (3, 3.0, None, None),
        (None, 4.0, None, None),
        (5, 5.0, "new", 7),
    ]
