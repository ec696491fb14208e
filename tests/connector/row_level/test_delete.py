"""DELETE: by filters where the driver finds the rows, else by a job; one version each."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.row_level import make, properties, seen, version, words


def _ids(spark: SparkSession, uri: str) -> list[object]:
    return [row[0] for row in seen(spark, uri, "id")]


@pytest.mark.slow
def test_filters_need_no_job(spark: SparkSession, uri: str) -> None:
    table = make(words(spark), uri)
    spark.sql(f"DELETE FROM {table} WHERE id IN (1, 7) OR word = 'w4'")
    assert _ids(spark, uri) == [0, 2, 3, 5, 6, 8, 9]
    assert properties(uri) == {"spark.operation": "DELETE"}
    # Neither a comparison with null nor its negation is true of a null.
    spark.sql(f"DELETE FROM {table} WHERE part <> 0")
    assert _ids(spark, uri) == [0, 2, 3, 5, 6, 8, 9]
    spark.sql(f"DELETE FROM {table} WHERE part IS NULL")
    assert _ids(spark, uri) == [0, 3, 6, 9]
    assert version(uri) == 3
    spark.sql(f"DELETE FROM {table} WHERE id < 5")
    assert len(lance.dataset(uri).get_fragments()) == 1
    spark.sql(f"DELETE FROM {table}")
    assert version(uri) == 5
    assert _ids(spark, uri) == []


@pytest.mark.parametrize("condition", ["id % 4 = 1", "pmod(id, 4) = 1 AND word LIKE 'w%'"])
def test_a_condition_that_only_spark_knows(spark: SparkSession, uri: str, condition: str) -> None:
    table = make(words(spark), uri)
    spark.sql(f"DELETE FROM {table} WHERE {condition}")
    assert _ids(spark, uri) == [0, 2, 3, 4, 6, 7, 8]
    assert version(uri) == 2
    spark.sql(f"DELETE FROM {table} WHERE {condition}")
    assert version(uri) == 2


@pytest.mark.slow
def test_subqueries_and_itself(spark: SparkSession, uri: str) -> None:
    table = make(words(spark), uri)
    spark.createDataFrame([(1,), (2,), (None,)], "k BIGINT").createOrReplaceTempView("gone_keys")
    spark.sql(f"DELETE FROM {table} WHERE id NOT IN (SELECT k FROM gone_keys)")
    assert version(uri) == 1
    spark.sql(
        f"DELETE FROM {table} AS t WHERE t.id IN (SELECT k FROM gone_keys) OR t.id = (SELECT max(id) FROM {table})"
    )
    assert _ids(spark, uri) == [0, 3, 4, 5, 6, 7, 8]
    spark.sql(f"DELETE FROM {table} AS t WHERE EXISTS (SELECT 1 FROM {table} s WHERE s.id = t.id + 1)")
    assert _ids(spark, uri) == [0, 8]
    assert version(uri) == 3
    with pytest.raises(AnalysisException):
        spark.sql(f"DELETE FROM {table} WHERE missing = 1")
