"""Statements that make a partitioned table together with its rows: one version, or nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

ROWS = "SELECT id, concat('k', id % 2) AS k FROM range(4)"
EXPECTED = [(0, "k0"), (1, "k1"), (2, "k0"), (3, "k1")]


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """A free name."""
    yield "lance.made"
    spark.sql("DROP TABLE IF EXISTS lance.made PURGE")


def history(spark: SparkSession, table: str) -> list[tuple[int, int]]:
    rows = spark.sql(f"DESCRIBE HISTORY {table}").collect()
    return sorted((row.version, row.num_rows) for row in rows)


def listed(spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.table(table).select("id", "k").collect()))


WAYS: dict[str, Callable[[SparkSession, DataFrame, str], object]] = {
    "as select": lambda spark, _, table: spark.sql(f"CREATE TABLE {table} PARTITIONED BY (k) AS {ROWS}"),
    "or replace": lambda spark, _, table: spark.sql(f"CREATE OR REPLACE TABLE {table} PARTITIONED BY (k) AS {ROWS}"),
    "saveAsTable": lambda _, rows, table: rows.write.partitionBy("k").saveAsTable(table),
    "saveAsTable overwrite": lambda _, rows, table: (
        rows.write.mode("overwrite").format("lance").partitionBy("k").saveAsTable(table)
    ),
    "create": lambda _, rows, table: rows.writeTo(table).partitionedBy(col("k")).create(),
    "createOrReplace": lambda _, rows, table: rows.writeTo(table).partitionedBy(col("k")).createOrReplace(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_table_and_its_rows_are_one_version(spark: SparkSession, name: str, way: str) -> None:
    WAYS[way](spark, spark.sql(ROWS), name)
    assert history(spark, name) == [(1, 4)]
    assert listed(spark, name) == EXPECTED
    assert spark.sql(f"SELECT * FROM {name}.partitions").count() == 2


def test_a_table_without_rows_is_one_version(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} PARTITIONED BY (k) AS {ROWS} WHERE id < 0")
    assert history(spark, name) == [(1, 0)]
    spark.sql(f"INSERT INTO {name} {ROWS}")
    assert history(spark, name) == [(1, 0), (2, 4)]
    assert listed(spark, name) == EXPECTED


@pytest.mark.slow
def test_a_path_and_its_rows_are_one_version(spark: SparkSession, uri: str) -> None:
    spark.sql(ROWS).write.format("lance").partitionBy("k").save(uri)
    assert history(spark, f"lance.`{uri}`") == [(1, 4)]
    assert listed(spark, f"lance.`{uri}`") == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "PARTITIONED BY (k)", "PARTITIONED BY (id)"])
def test_a_replacement_is_one_version(spark: SparkSession, name: str, before: str) -> None:
    """A table without partitions is replaced by another one, whose versions begin with 1."""
    spark.sql(f"CREATE TABLE {name} {before} AS SELECT 7L AS id, 'x' AS k")
    spark.sql(f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (k) AS {ROWS}")
    assert history(spark, name) == ([(1, 1), (2, 4)] if before else [(1, 4)])
    assert listed(spark, name) == EXPECTED


@pytest.mark.slow
def test_options_of_the_write_shape_the_table(spark: SparkSession, name: str, root: str) -> None:
    options = {"enable_stable_row_ids": "true", "file_format_version": "2.1", "use_large_var_types": "true"}
    spark.sql(ROWS).writeTo(name).partitionedBy(col("k")).options(**options).create()
    where = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").first()
    assert where is not None
    parts = [path.parent for path in Path(where.data_type.removeprefix("file:")).glob("*dataset/_versions")]
    assert len(parts) == 2
    for part in map(lance.dataset, map(str, parts)):
        assert (part.has_stable_row_ids, part.data_storage_version) == (True, "2.1")
        assert part.schema.field("k").type == pa.large_string()
    assert listed(spark, name) == EXPECTED


@pytest.mark.tasks
def test_nothing_is_there_while_the_query_runs(spark: SparkSession, name: str, root: str, uri: str) -> None:
    def manifests() -> str:
        """The catalogs of partitioned tables that a reader would find now."""
        return ",".join(str(path) for folder in (root, uri) for path in sorted(Path(folder).glob("*/__manifest")))

    rows = spark.range(1).select("id", udf(lambda _: manifests())("id").alias("k"))
    rows.writeTo(name).partitionedBy(col("k")).create()
    rows.write.format("lance").partitionBy("k").save(uri)
    before = "" if not Path(root).exists() else spark.table(name).first().k
    assert "made" not in before
    assert uri not in spark.read.format("lance").load(uri).first().k


@pytest.mark.slow
def test_a_query_that_fails_leaves_nothing(spark: SparkSession, name: str, root: str, uri: str) -> None:
    folders = sorted(Path(root).iterdir())
    failing = "SELECT id, if(id = 3, raise_error('no'), concat('k', id % 2)) AS k FROM range(0, 5, 1, 1)"
    for statement in (
        f"CREATE TABLE {name} PARTITIONED BY (k) AS {failing}",
        f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (k) AS {failing}",
        f"CREATE TABLE lance.`{uri}` PARTITIONED BY (k) AS {failing}",
    ):
        with pytest.raises(PySparkException, match="no"):
            spark.sql(statement)
        assert not spark.catalog.tableExists(name)
        assert not (Path(uri) / "__manifest").exists()
    # A task that is still being killed may write a file, which is removed soon; an empty folder may be left.
    for _ in range(100):
        left = [path for path in Path(root).iterdir() if path not in folders and any(path.rglob("*.*"))]
        if not left:
            break
        time.sleep(0.1)
    assert left == []


@pytest.mark.tasks
def test_another_writer_who_is_first_at_the_path_keeps_it(spark: SparkSession, uri: str) -> None:
    """The other table, made while the query runs, is a plain one."""
    other = f"{uri}_other"
    spark.range(7).write.format("lance").save(other)

    def put() -> str:
        shutil.copytree(other, uri, dirs_exist_ok=True)
        return "a"

    rows = spark.range(1).select("id", udf(lambda _: put())("id").alias("k"))
    with pytest.raises(PySparkException, match=r"there is a table at .* already"):
        rows.write.format("lance").partitionBy("k").save(uri)
    assert spark.read.format("lance").load(uri).count() == 7
    assert not (Path(uri) / "__manifest").exists()
