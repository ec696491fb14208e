"""Tables that a query makes have nullable columns, as Spark's convention is; NOT NULL of a CREATE TABLE stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lance_spark

STRUCT = "named_struct('a', 1, 'b', array(named_struct('c', 2)))"
QUERY = f"SELECT id, 'x' AS name, {STRUCT} AS s, map('k', 1) AS m FROM range(2)"
NULLS = "SELECT null, null, named_struct('a', null, 'b', array(null, named_struct('c', null))), map('k', null)"


@pytest.fixture(params=["", "PARTITIONED BY (name)"], ids=["plain", "partitioned"])
def partitioning(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    yield "lance.nullable"
    spark.sql("DROP TABLE IF EXISTS lance.nullable PURGE")


def check_takes_nulls(spark: SparkSession, table: str) -> None:
    schema = spark.table(table).schema
    assert schema == schema.toNullable()
    spark.sql(f"INSERT INTO {table} {NULLS}")
    assert [row.asDict(True) for row in spark.table(table).where("id IS NULL").collect()] == [
        {"id": None, "name": None, "s": {"a": None, "b": [None, {"c": None}]}, "m": {"k": None}}
    ]


def test_ctas_makes_nullable_columns(spark: SparkSession, name: str, partitioning: str) -> None:
    spark.sql(f"CREATE TABLE {name} USING lance {partitioning} AS {QUERY}")
    check_takes_nulls(spark, name)


def test_rtas_makes_nullable_columns(spark: SparkSession, name: str, partitioning: str) -> None:
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, name STRING NOT NULL, s STRUCT<a: INT NOT NULL, "
        f"b: ARRAY<STRUCT<c: INT NOT NULL>>> NOT NULL, m MAP<STRING, INT> NOT NULL) {partitioning}"
    )
    spark.sql(f"CREATE OR REPLACE TABLE {name} {partitioning} AS {QUERY}")
    check_takes_nulls(spark, name)


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite", "append"])
def test_save_as_table_makes_nullable_columns(spark: SparkSession, name: str, mode: str, partitioning: str) -> None:
    by = ["name"] if partitioning else []
    spark.sql(QUERY).write.mode(mode).partitionBy(*by).saveAsTable(name)
    check_takes_nulls(spark, name)


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite", "append"])
def test_save_makes_nullable_columns_as_parquet(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    uri = str(tmp_path / "t")
    read: list[DataFrame] = []
    for kind in ("parquet", "lance"):
        spark.sql(QUERY).write.format(kind).mode(mode).save(f"{uri}.{kind}")
        spark.sql(QUERY).write.format(kind).mode("overwrite").save(f"{uri}.{kind}")
        read.append(spark.read.format(kind).load(f"{uri}.{kind}"))
    assert read[1].schema == read[0].schema
    check_takes_nulls(spark, f"lance.`{uri}.lance`")


def test_rows_without_nulls_append_to_columns_that_are_not_null(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL>)")
    spark.sql(f"INSERT INTO {name} SELECT id, named_struct('a', 1) FROM range(2)")
    spark.sql(f"INSERT OVERWRITE {name} SELECT id, named_struct('a', 1) FROM range(3)")
    with pytest.raises(PySparkException):
        spark.sql(f"INSERT INTO {name} VALUES (null, null)")
    fields = spark.table(name).schema.fields
    assert not fields[0].nullable
    assert not fields[1].dataType["a"].nullable  # type: ignore[index]
    assert spark.table(name).count() == 3


def test_explicit_not_null_stays_when_a_table_is_replaced(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRUCT<a: INT>, l ARRAY<INT>)")
    spark.sql(f"REPLACE TABLE {name} (id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL>, l ARRAY<INT>)")
    schema = spark.table(name).schema
    assert [field.nullable for field in schema.fields] == [False, True, True]
    assert not schema["s"].dataType["a"].nullable  # type: ignore[index]
    where = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").first()
    assert where is not None
    assert not lance_spark.open(where.data_type).schema.field("id").nullable
