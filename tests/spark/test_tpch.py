"""TPC-H through the plug-in: all eight tables go in and out, and the 22 queries say what they say on Parquet."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tests.spark import tpch

QUERIES = tpch.queries()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with ``<table>.parquet`` as generated and ``<table>.lance`` written from it by Spark."""
    folder = tpch.generate(tmp_path_factory.mktemp("tpch"))
    for table in tpch.TABLES:
        frame = spark.read.parquet(str(folder / f"{table}.parquet"))
        frame.write.format("lance").mode("append").save(str(folder / f"{table}.lance"))
    return folder


def use(spark: SparkSession, folder: Path, kind: str) -> None:
    for table in tpch.TABLES:
        reader = spark.read.format("lance") if kind == "lance" else spark.read.format("parquet")
        reader.load(str(folder / f"{table}.{kind}")).createOrReplaceTempView(table)


@pytest.mark.parametrize("table", tpch.TABLES)
def test_tables_come_back_equal(spark: SparkSession, tables: Path, table: str) -> None:
    expected = spark.read.parquet(str(tables / f"{table}.parquet"))
    actual = spark.read.format("lance").load(str(tables / f"{table}.lance"))
    assert actual.schema.simpleString() == expected.schema.simpleString()
    assert actual.count() == expected.count()
    assert actual.exceptAll(expected).isEmpty()


@pytest.mark.parametrize("number", sorted(QUERIES))
def test_queries_answer_as_on_parquet(pushdown: SparkSession, tables: Path, number: int) -> None:
    query = QUERIES[number].rstrip().rstrip(";")
    use(pushdown, tables, "parquet")
    expected = pushdown.createDataFrame(pushdown.sql(query).collect(), pushdown.sql(query).schema)
    use(pushdown, tables, "lance")
    actual = pushdown.sql(query)
    assert expected.count() > 0
    assert_df_equality(actual, expected, ignore_nullable=True, ignore_row_order=True)
