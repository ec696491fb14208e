"""TPC-H through the plug-in: all eight tables go in and out, and the 22 queries say what they say on Parquet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark import tpch
from tests.support.plugin.pushdown import PUSHDOWN

QUERIES = tpch.queries()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with ``<table>.parquet`` as generated and ``<table>.lance`` written from it by Spark."""
    folder = tpch.generate(tmp_path_factory.mktemp("tpch"))
    for table in tpch.TABLES:
        frame = spark.read.parquet(str(folder / f"{table}.parquet"))
        frame.write.format("lance").mode("append").save(str(folder / f"{table}.lance"))
    return folder


def with_views(session: SparkSession, folder: Path, kind: str) -> SparkSession:
    for table in tpch.TABLES:
        session.read.format(kind).load(str(folder / f"{table}.{kind}")).createOrReplaceTempView(table)
    return session


@pytest.fixture(scope="module")
def on_parquet(spark: SparkSession, tables: Path) -> SparkSession:
    """A session of its own whose views are the Parquet files."""
    return with_views(spark.newSession(), tables, "parquet")


@pytest.fixture(scope="module")
def on_lance(spark: SparkSession, tables: Path) -> SparkSession:
    """A session of its own whose views are the Lance tables, with filters pushed down."""
    session = spark.newSession()
    session.conf.set(PUSHDOWN, "true")
    return with_views(session, tables, "lance")


@pytest.mark.slow
@pytest.mark.parametrize("table", tpch.TABLES)
def test_tables_come_back_equal(spark: SparkSession, tables: Path, table: str) -> None:
    expected = spark.read.parquet(str(tables / f"{table}.parquet"))
    actual = spark.read.format("lance").load(str(tables / f"{table}.lance"))
    assert actual.schema.simpleString() == expected.schema.simpleString()
    assert actual.count() == expected.count()
    assert actual.exceptAll(expected).isEmpty()


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(QUERIES))
def test_queries_answer_as_on_parquet(on_parquet: SparkSession, on_lance: SparkSession, number: int) -> None:
    query = QUERIES[number].rstrip().rstrip(";")
    expected, actual = on_parquet.sql(query), on_lance.sql(query)
    assert [(field.name, field.dataType) for field in actual.schema] == [
        (field.name, field.dataType) for field in expected.schema
    ]
    rows = expected.collect()
    assert rows
    assert Counter(actual.collect()) == Counter(rows)
