"""Rows whose columns have the same name are refused before a task runs; so are lists of a wrong length, in a task."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

SAME = ["a|a", "named_struct('x', a, 'x', a) AS s", "array(named_struct('x', a, 'x', a)) AS l"]
FOLDED = ["a|a AS A", "named_struct('x', a, 'X', a) AS s"]


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
@pytest.mark.parametrize("columns", SAME + FOLDED)
def test_duplicate_names_are_refused_by_path(spark: SparkSession, uri: str, columns: str, mode: str) -> None:
    frame = spark.range(3).toDF("a").selectExpr(*columns.split("|"))
    with pytest.raises(AnalysisException, match=r"COLUMN_ALREADY_EXISTS|several columns|differ in case only"):
        frame.write.format("lance").mode(mode).save(uri)
    assert not Path(uri).exists()


@pytest.mark.parametrize("columns", FOLDED)
@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_names_that_differ_in_case_where_the_session_tells_them_apart(
    spark: SparkSession, uri: str, columns: str, mode: str
) -> None:
    try:
        spark.conf.set("spark.sql.caseSensitive", "true")
        spark.range(3).toDF("a").selectExpr(*columns.split("|")).write.format("lance").mode(mode).save(uri)
        assert spark.read.format("lance").load(uri).count() == 3
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_duplicate_names_over_a_table(spark: SparkSession, uri: str) -> None:
    frame = spark.range(3).toDF("a")
    frame.write.format("lance").save(uri)
    with pytest.raises(AnalysisException, match="several columns 'a'"):
        frame.select("a", "a").write.format("lance").mode("overwrite").save(uri)
    assert lance.dataset(uri).version == 1


def test_lists_of_a_wrong_length_name_column_and_lengths(spark: SparkSession, uri: str) -> None:
    size = {"v.arrow.fixed-size-list.size": "3"}
    with pytest.raises(Exception, match="column v takes lists of 3 items, and row 0 of its batch has one of 2"):
        spark.sql("SELECT array(1, 2) AS v").write.format("lance").options(**size).save(uri)
    spark.sql("SELECT IF(id = 0, array(1, NULL, 3), NULL) AS v FROM range(1)").write.format("lance").options(
        **size
    ).save(uri)
    spark.sql("SELECT CAST(NULL AS ARRAY<INT>) AS v").write.format("lance").mode("append").save(uri)
    with pytest.raises(Exception, match="column v takes lists of 3 items, and row 0 of its batch has one of 0"):
        spark.sql("SELECT CAST(array() AS ARRAY<INT>) AS v").write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).to_table()["v"].to_pylist() == [[1, None, 3], None]
    assert sorted(str(row.v) for row in spark.read.format("lance").load(uri).collect()) == ["None", "[1, None, 3]"]
