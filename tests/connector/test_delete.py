"""DELETE: by filters where the driver finds the rows, else by a job; one version each."""

from __future__ import annotations

import lance
import pytest
from pyspark.sql import SparkSession


def _make(spark: SparkSession, uri: str, rows: int = 10) -> str:
    """A table of two fragments: id, word, part with nulls."""
    spark.range(0, rows, numPartitions=2).selectExpr(
        "id", "concat('w', id) AS word", "nullif(id % 3, 2) AS part"
    ).write.format("lance").save(uri)
    return f"lance.`{uri}`"


def _ids(uri: str) -> list[int]:
    return sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist())


def test_a_filter(spark: SparkSession, uri: str) -> None:
    table = _make(spark, uri)
    spark.sql(f"DELETE FROM {table} WHERE id IN (1, 7) OR word = 'w4'")
    assert _ids(uri) == [0, 2, 3, 5, 6, 8, 9]
    assert lance.dataset(uri).version == 2


@pytest.mark.parametrize("condition", ["id % 4 = 1", "pmod(id, 4) = 1 AND word LIKE 'w%'"])
def test_a_condition_that_only_spark_knows(spark: SparkSession, uri: str, condition: str) -> None:
    table = _make(spark, uri)
    spark.sql(f"DELETE FROM {table} WHERE {condition}")
    assert _ids(uri) == [0, 2, 3, 4, 6, 7, 8]
    assert lance.dataset(uri).version == 2
    spark.sql(f"DELETE FROM {table} WHERE {condition}")
    assert lance.dataset(uri).version == 2
