"""Options that choose the state of a table by name, in reads and writes, and mergeSchema."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

Write = Callable[[DataFrame, str], None]

WRITES: dict[str, Write] = {
    "append": lambda rows, table: rows.writeTo(table).option("branch", "dev").append(),
    "overwrite": lambda rows, table: rows.writeTo(table).option("branch", "dev").overwritePartitions(),
    "saveAsTable": lambda rows, table: rows.write.mode("append").option("branch", "dev").saveAsTable(table),
}


@pytest.fixture(scope="module")
def namespace(spark: SparkSession) -> str:
    spark.sql("CREATE NAMESPACE lance.table_options")
    return "lance.table_options"


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Version 2 has row 1 and the tag `one`, version 3 of main has rows 1 and 2; the branch `dev` is of version 2."""
    name = f"{namespace}.t"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    spark.sql(f"ALTER TABLE {name} CREATE TAG one")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH dev")
    spark.sql(f"INSERT INTO {name} VALUES (2)")
    return name


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def test_reads(spark: SparkSession, table: str) -> None:
    assert ids(spark.table(table)) == [1, 2]
    assert ids(spark.read.option("branch", "dev").table(table)) == [1]
    assert ids(spark.read.option("branch", "main").table(table)) == [1, 2]
    assert ids(spark.read.option("version", 2).table(table)) == [1]
    assert ids(spark.read.option("TAG", "one").table(table)) == [1]
    assert ids(spark.sql(f"SELECT t.id FROM {table} WITH (version = 2) AS t WHERE t.id > 0")) == [1]
    both = f"SELECT o.id FROM {table} n JOIN {table} WITH (branch = 'dev') o ON n.id = o.id"
    assert ids(spark.sql(both)) == [1]
    assert ids(spark.sql(f"SELECT id FROM {table} WHERE id NOT IN (SELECT id FROM {table} WITH (tag = 'one'))")) == [2]


@pytest.mark.parametrize("write", WRITES)
def test_writes_to_a_branch(spark: SparkSession, table: str, write: str) -> None:
    WRITES[write](spark.range(7, 9), table)
    assert ids(spark.table(table)) == [1, 2]
    assert ids(spark.table(f"{table}.branch_dev")) == ([7, 8] if write == "overwrite" else [1, 7, 8])


def test_sql_writes_to_a_branch(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} WITH (branch = 'dev') VALUES (7)")
    assert ids(spark.table(table)) == [1, 2]
    assert ids(spark.table(f"{table}.branch_dev")) == [1, 7]


@pytest.mark.parametrize(("option", "value"), [("version", "2"), ("tag", "one")])
def test_a_write_names_no_version(spark: SparkSession, table: str, option: str, value: str) -> None:
    with pytest.raises(PySparkException, match=option):
        spark.range(1).writeTo(table).option(option, value).append()
    assert ids(spark.table(table)) == [1, 2]


def test_merge_schema(spark: SparkSession, table: str) -> None:
    wider = spark.range(7, 8).selectExpr("id", "'a' AS x")
    wider.writeTo(table).option("mergeSchema", "true").append()
    wider.selectExpr("*", "1 AS y").write.mode("append").option("mergeSchema", "true").saveAsTable(table)
    spark.sql(f"INSERT INTO {table} WITH (mergeSchema = 'true') SELECT 9L AS id, 'b' AS x, 2 AS y, true AS z")
    assert spark.table(table).columns == ["id", "x", "y", "z"]
    assert sorted(map(tuple, spark.table(table).collect()), key=str) == [
        (1, None, None, None),
        (2, None, None, None),
        (7, "a", 1, None),
        (7, "a", None, None),
        (9, "b", 2, True),
    ]


def test_merge_schema_of_a_branch(spark: SparkSession, table: str) -> None:
    wider = spark.range(7, 8).selectExpr("id", "'a' AS x")
    wider.writeTo(table).option("branch", "dev").option("mergeSchema", "true").append()
    assert spark.table(table).columns == ["id"]
    assert sorted(map(tuple, spark.table(f"{table}.branch_dev").collect())) == [(1, None), (7, "a")]


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
def test_schema_evolution_of_a_branch(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table}.branch_dev SELECT 7L AS id, 'a' AS x")
    assert ids(spark.table(table)) == [1, 2]
    assert sorted(map(tuple, spark.table(f"{table}.branch_dev").collect())) == [(1, None), (7, "a")]


def test_save_by_path(spark: SparkSession, tmp_path: object) -> None:
    """A save makes the table; an append keeps its columns, and an overwrite, also of what it reads, brings others."""
    uri = f"{tmp_path}/saved"

    def save(rows: DataFrame, mode: str) -> None:
        rows.write.format("lance").mode(mode).save(uri)

    save(spark.range(2), "append")
    save(spark.range(2, 4), "append")
    with pytest.raises(PySparkException, match="TOO_MANY_DATA_COLUMNS"):
        save(spark.range(1).selectExpr("id", "1 AS x"), "append")
    assert ids(spark.read.format("lance").load(uri)) == [0, 1, 2, 3]
    save(spark.read.format("lance").load(uri).selectExpr("id * 10 AS id", "'x' AS x"), "overwrite")
    assert sorted(map(tuple, spark.read.format("lance").load(uri).collect())) == [(n, "x") for n in (0, 10, 20, 30)]
