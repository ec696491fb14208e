"""Text searches in tasks return the rows and the scores of searches in the planner process."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan
from tests.support.connector.spark_jobs import jobs

SETTING = "spark.sql.lance.textSearch.inlineBytes"
VECTOR_SETTING = "spark.sql.lance.vectorSearch.inlineBytes"
WORDS = ["sea and lake", "lake", "wood wood wood", "rare tree", "sea and wood by the sea", "", "stone"]


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """400 rows in several fragments, every seventh deleted, and a text index of the first half."""
    name = f"lance.db.divided_text_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    columns = "id BIGINT, p BIGINT, text STRING, other STRING, v ARRAY<FLOAT>"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING lance {by} TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')")
    for start in range(0, 400, 100):
        rows = [
            (n, n % 3, WORDS[n * n % 7], WORDS[n % 5] if n % 11 else None, [float(n), float(n % 10)])
            for n in range(start, start + 100)
        ]
        frame = spark.createDataFrame(rows, columns)
        frame.coalesce(1).writeTo(name).append()
        if start == 100:
            spark.sql(f"ALTER TABLE {name} CREATE INDEX t_idx USING fts (text) WITH (stem = false)")
    spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    return name


@pytest.mark.parametrize(
    "arguments",
    [
        "'sea'",
        "'sea wood', limit => 1000, with_row_id => true",
        "'rare tree', search_columns => array('other'), limit => 30, offset => 4",
        "'lake sea', search_columns => array('text', 'other'), limit => 25, filter => 'id % 2 = 1'",
        "'sea', search_columns => array('text'), fast_search => true",
        "'nothing'",
    ],
)
def test_rows_and_scores_are_those_of_the_planner(spark: SparkSession, table: str, arguments: str) -> None:
    query = f"SELECT * FROM search('{table}', {arguments})"
    here, in_tasks = found(spark, query), with_tasks(spark, query)
    assert "tasks=" not in here[1]
    assert in_tasks[0] == here[0]
    assert bool(here[0]) is ("nothing" not in arguments)
    assert ("tasks=" in in_tasks[1]) is ("fast_search" not in arguments)


def test_calls_find_the_rows_of_the_planner(spark: SparkSession, table: str) -> None:
    arguments = "query => 'lake sea', columns => array('id', 'text'), limit => 25, filter => 'id % 2 = 1'"
    query = f"CALL lance.system.search(table => '{table.removeprefix('lance.')}', {arguments})"
    here = found(spark, query)[0]
    count, (in_tasks, _) = jobs(spark, lambda: with_tasks(spark, query))
    assert count > 0
    assert in_tasks == here
    assert len(here) == 25


@pytest.mark.parametrize("vector_setting", [None, "0"])
def test_hybrid_searches_find_the_rows_of_the_planner(
    spark: SparkSession, table: str, vector_setting: str | None
) -> None:
    query = f"SELECT id, _score, _distance, _relevance_score FROM hybrid_search('{table}', array(77, 4), 'rare sea', 9)"
    here = found(spark, query)
    assert "tasks=" not in here[1]
    if vector_setting is not None:
        spark.conf.set(VECTOR_SETTING, vector_setting)
    try:
        in_tasks = with_tasks(spark, query)
    finally:
        spark.conf.unset(VECTOR_SETTING)
    assert "tasks=" in in_tasks[1]
    assert str(in_tasks[0]) == str(here[0])
    assert len(here[0]) == 9


def with_tasks(spark: SparkSession, query: str) -> tuple[list[tuple[Any, ...]], str]:
    """As `found`, where tasks analyze all texts without an index."""
    spark.conf.set(SETTING, "0")
    try:
        return found(spark, query)
    finally:
        spark.conf.unset(SETTING)


def found(spark: SparkSession, query: str) -> tuple[list[tuple[Any, ...]], str]:
    """The rows in their order, and the plan."""
    frame = spark.sql(query)
    return [tuple(row) for row in frame.collect()], plan(frame)


def test_setting_is_a_number(spark: SparkSession, table: str) -> None:
    spark.conf.set(SETTING, "many")
    try:
        with pytest.raises(AnalysisException, match=r"textSearch.inlineBytes is 'many'; it is a number of bytes"):
            spark.sql(f"SELECT * FROM search('{table}', 'sea')").collect()
    finally:
        spark.conf.unset(SETTING)
