"""USING in a Lance catalog: lance, Spark's default source, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

DEFAULT = "spark.sql.sources.default"


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    yield "lance.provided"
    spark.sql("DROP TABLE IF EXISTS lance.provided PURGE")


@pytest.mark.parametrize("provider", ["csv", "orc", "json", "text", "jdbc"])
def test_other_providers_are_refused(spark: SparkSession, table: str, provider: str) -> None:
    rows = spark.range(2)
    for make in (
        lambda: spark.sql(f"CREATE TABLE {table} (id BIGINT) USING {provider}"),
        lambda: spark.sql(f"CREATE OR REPLACE TABLE {table} (id BIGINT) USING {provider}"),
        lambda: spark.sql(f"CREATE TABLE {table} USING {provider} PARTITIONED BY (id) AS SELECT 1 AS id"),
        lambda: spark.sql(f"CREATE OR REPLACE TABLE {table} USING {provider} AS SELECT 1 AS id"),
        lambda: rows.write.format(provider).saveAsTable(table),
        lambda: rows.write.format(provider).mode("overwrite").saveAsTable(table),
        lambda: rows.writeTo(table).using(provider).createOrReplace(),
    ):
        with pytest.raises(PySparkException, match=f"USING {provider}: tables of catalog lance are Lance tables"):
            make()
        assert not spark.catalog.tableExists(table)


@pytest.mark.parametrize("using", ["", "USING lance", "USING LANCE", "USING io.lancespark.LanceSource"])
def test_lance_and_nothing_are_taken(spark: SparkSession, table: str, using: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id BIGINT) {using}")
    spark.sql(f"REPLACE TABLE {table} {using} AS SELECT 1 AS id")
    assert spark.table(table).count() == 1


@pytest.mark.parametrize("default", ["parquet", "orc"])
def test_default_source_is_taken(spark: SparkSession, table: str, default: str) -> None:
    """Spark sends it for `saveAsTable` without a format, just as for an explicit USING."""
    before = spark.conf.get(DEFAULT)
    spark.conf.set(DEFAULT, default)
    try:
        spark.range(2).write.saveAsTable(table)
        spark.range(3).write.mode("overwrite").saveAsTable(table)
    finally:
        spark.conf.set(DEFAULT, before)
    assert spark.table(table).count() == 3


@pytest.mark.parametrize("clause", ["STORED AS PARQUET", "ROW FORMAT DELIMITED FIELDS TERMINATED BY ','"])
def test_formats_of_hive_are_refused(spark: SparkSession, table: str, clause: str) -> None:
    with pytest.raises(PySparkException, match="leave STORED AS and ROW FORMAT out"):
        spark.sql(f"CREATE TABLE {table} (id BIGINT) {clause}")
    assert not spark.catalog.tableExists(table)
