"""Tables of Spark's own catalog: `CREATE TABLE ... USING lance LOCATION`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.streams import run


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    yield "spark_catalog.default.of_session"
    spark.sql("DROP TABLE IF EXISTS spark_catalog.default.of_session")


def test_a_new_table(spark: SparkSession, table: str, uri: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING) USING lance LOCATION '{uri}'")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    assert sorted(map(tuple, spark.table(table).where("id > 1").collect())) == [(2, "b")]
    assert lance.dataset(uri).to_table().to_pydict() == {"id": [1, 2], "name": ["a", "b"]}
    spark.sql(f"INSERT OVERWRITE {table} VALUES (3, 'c')")
    assert [tuple(row) for row in spark.table(table).collect()] == [(3, "c")]


def test_a_table_that_is_there(spark: SparkSession, table: str, uri: str) -> None:
    spark.range(5).write.format("lance").save(uri)
    spark.sql(f"CREATE TABLE {table} USING lance LOCATION '{uri}'")
    assert spark.table(table).count() == 5
    assert spark.sql(f"SELECT max(id) AS m FROM {table}").first().m == 4


def test_a_temporary_view(spark: SparkSession, uri: str) -> None:
    spark.range(5).write.format("lance").save(uri)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_path USING lance OPTIONS (path '{uri}')")
    assert spark.sql("SELECT count(*) AS n FROM of_path WHERE id > 2").first().n == 2


@pytest.mark.slow
def test_streams_from_and_to_a_table(spark: SparkSession, table: str, uri: str, tmp_path: Path) -> None:
    spark.range(5).write.format("lance").save(str(tmp_path / "from"))
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING lance LOCATION '{uri}'")
    run(spark.readStream.format("lance").load(str(tmp_path / "from")), table, tmp_path / "c")
    run(spark.readStream.format("lance").load(str(tmp_path / "from")), table, tmp_path / "c")
    assert sorted(row.id for row in spark.table(table).collect()) == list(range(5))
    run(spark.readStream.table(table).where("id > 2"), str(tmp_path / "copy"), tmp_path / "d")
    assert sorted(row.id for row in spark.read.format("lance").load(str(tmp_path / "copy")).collect()) == [3, 4]


def test_generated_columns_are_refused(spark: SparkSession, table: str, uri: str) -> None:
    with pytest.raises(AnalysisException, match="does not support generated columns"):
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, more BIGINT GENERATED ALWAYS AS (id * 2)) USING lance LOCATION '{uri}'"
        )
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(table)
    assert not Path(uri).exists()


@pytest.mark.since("4.1", "INSERT that leaves out columns, in the session catalog")
def test_columns_can_have_a_default(spark: SparkSession, table: str, uri: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id BIGINT, more BIGINT DEFAULT 5) USING lance LOCATION '{uri}'")
    spark.sql(f"INSERT INTO {table} (id) VALUES (1)")
    spark.sql(f"INSERT INTO {table} VALUES (2, DEFAULT), (3, 7)")
    rows = spark.sql(f"SELECT id, more FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, 5), (2, 5), (3, 7)]
