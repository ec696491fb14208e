"""Misspelt names in OPTIONS, WITH, TBLPROPERTIES are refused with the nearest one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.spark.connector.scan.settings import SETTINGS


@pytest.fixture(params=["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.sql(f"CREATE TABLE lance.spelt (id BIGINT, k STRING) {request.param}")
    spark.sql("INSERT INTO lance.spelt VALUES (1, 'a')")
    yield "lance.spelt"
    spark.sql("DROP TABLE lance.spelt PURGE")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("OPTIONS (max_rows_per_fil '3')", "did you mean max_row"),
        ("OPTIONS (foo 'x')", "unknown option foo"),
    ],
)
def test_create_table(spark: SparkSession, clause: str, message: str) -> None:
    for statement in (
        f"CREATE TABLE lance.never (id BIGINT, k STRING) USING lance {clause}",
        f"CREATE OR REPLACE TABLE lance.never USING lance {clause} AS SELECT 1 AS id, 'a' AS k",
    ):
        with pytest.raises(PySparkException, match=message):
            spark.sql(statement)
        assert not spark.catalog.tableExists("lance.never")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("versoin = 1", "did you mean version"),
        ("batchsize = 1", "did you mean batch_size"),
        ("max_rows_per_file = 1", "one of writes"),
    ],
)
def test_select_with(spark: SparkSession, table: str, option: str, message: str) -> None:
    for query in (f"SELECT * FROM {table} WITH ({option})", f"SELECT count(*) FROM {table} WITH ({option})"):
        with pytest.raises(PySparkException, match=message):
            spark.sql(query).collect()


@pytest.mark.parametrize(
    ("option", "message"),
    [("max_rows_per_fil = 1", "did you mean max_row")],
)
def test_insert_with(spark: SparkSession, table: str, option: str, message: str) -> None:
    for statement in (f"INSERT INTO {table} WITH ({option})", f"INSERT OVERWRITE {table} WITH ({option})"):
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"{statement} SELECT 2L, 'b'")
    assert spark.table(table).count() == 1


def test_alter_table(spark: SparkSession, table: str) -> None:
    for entry, message in (
        ("'lance.compresion' = 'zstd'", "did you mean"),
        ("'isolation-levl' = 'snapshot'", "did you mean isolation-level"),
        ("'isolation-level' = 'x'", "is 'serializable' or 'snapshot'"),
        ("'file_format_version' = '2.1'", "is decided when a table is made"),
        ("'max_rows_per_file' = 'many'", "not an integer of at least 1"),
        ("'distribution' = 'west'", "not none, hash or range"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({entry})")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('owner.team' = 'x', 'isolation-level' = 'snapshot')")
    told = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert (told["owner.team"], told["isolation-level"]) == ("x", "snapshot")


@pytest.mark.slow
@pytest.mark.parametrize(
    "property",
    ["'lance.merge.mode' = 'sideways'", "'lance.update_mode' 'rows'", "'id.lance.shrink' = 'true'"],
)
def test_unknown_properties_of_the_format(spark: SparkSession, table: str, property: str) -> None:
    before = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
    for statement in (
        f"CREATE TABLE lance.never (id BIGINT, k STRING) TBLPROPERTIES ({property})",
        f"CREATE TABLE lance.never PARTITIONED BY (k) TBLPROPERTIES ({property}) AS SELECT 1 AS id, 'a' AS k",
        f"CREATE OR REPLACE TABLE lance.never TBLPROPERTIES ({property}) AS SELECT 1 AS id",
        f"REPLACE TABLE {table} TBLPROPERTIES ({property}) AS SELECT 1 AS id, 'a' AS k",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('mine' = '1', {property})",
    ):
        with pytest.raises(PySparkException, match=r"unknown property .*; did you mean "):
            spark.sql(statement)
    with pytest.raises(PySparkException, match=r"unknown property .*; did you mean "):
        spark.range(1).writeTo("lance.never").tableProperty("lance.merge.mode", "rows").create()
    assert not spark.catalog.tableExists("lance.never")
    assert spark.sql(f"SHOW TBLPROPERTIES {table}").collect() == before
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ('lance.merge.mode')")


@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (k)"])
def test_statement_that_shows_a_table_makes_it_again(spark: SparkSession, clause: str) -> None:
    properties = "'enable_stable_row_ids' = 'true', 'data_storage_version' = '2.1', 'id.lance.compression' = 'zstd'"
    spark.sql(f"CREATE TABLE lance.shown (id BIGINT, k STRING) {clause} TBLPROPERTIES ({properties})")

    def shown() -> str:
        (row,) = spark.sql("SHOW CREATE TABLE lance.shown").collect()
        return "\n".join(line for line in row[0].splitlines() if not line.startswith("LOCATION"))

    before = shown()
    spark.sql("DROP TABLE lance.shown PURGE")
    spark.sql(before)
    assert shown() == before
    spark.sql("DROP TABLE lance.shown PURGE")


def test_settings(spark: SparkSession, table: str) -> None:
    """Settings of the session are refused in each statement; also one that an earlier release had."""
    wrong = {"topn.enabled": "mean .*topN.enabled", "inlineByte": "mean .*inlineBytes", "zoneMaps": "known are .*topN"}
    for name, hint in wrong.items():
        other = spark.newSession()
        other.conf.set(f"spark.sql.lance.{name}", "true")
        for statement in (
            f"SELECT * FROM {table}",
            f"INSERT INTO {table} VALUES (2, 'b')",
            f"CALL lance.system.history(table => '{table}')",
        ):
            with pytest.raises(PySparkException, match=f"unknown setting spark.sql.lance.{name}; .*{hint}"):
                other.sql(statement).collect()
        other.sql(f"RESET spark.sql.lance.{name}")
        assert other.table(table).count() == 1


def test_known_settings_are_those_of_the_jvm_and_of_the_pages() -> None:
    package = Path(lance_spark.__file__).parent
    pattern = re.compile(r"spark\.sql\.lance\.([a-zA-Z]+(?:\.[a-zA-Z]+)*)")
    java = {name for file in package.rglob("*.java") for name in pattern.findall(file.read_text())}
    pages = {name for file in (package.parent / "docs").rglob("*.md") for name in pattern.findall(file.read_text())}
    assert java == SETTINGS
    assert pages == SETTINGS
