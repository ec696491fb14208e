"""Tables of Spark's own catalog: `CREATE TABLE ... USING lance LOCATION`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


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


@pytest.mark.parametrize("rule", ["DEFAULT 5", "GENERATED ALWAYS AS (id * 2)"])
def test_columns_have_no_values_of_their_own(spark: SparkSession, table: str, uri: str, rule: str) -> None:
    with pytest.raises(AnalysisException, match=r"no DEFAULT|does not support generated columns"):
        spark.sql(f"CREATE TABLE {table} (id BIGINT, more BIGINT {rule}) USING lance LOCATION '{uri}'")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(table)
    assert not Path(uri).exists()
