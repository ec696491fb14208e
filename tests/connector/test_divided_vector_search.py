"""``vector_search`` in tasks returns the rows of one in the planner process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.connector.conftest import plan

SETTING = "spark.sql.lance.vectorSearch.inlineBytes"
COUNT = 400
VALUES = np.random.default_rng(5).integers(-3, 4, size=(COUNT, 4)).astype(np.float32)
"""Small whole numbers: many rows are equally near."""
QUERY = "array(0.5, 0.0, 1.0, -1.0)"
LIVE = [number for number in range(COUNT) if number % 7]


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """400 rows in several fragments, every seventh deleted, an index of the first half, and rows without a vector."""
    name = f"lance.db.divided_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p BIGINT, v ARRAY<FLOAT>) USING lance {by} "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '4')"
    )
    for start in range(0, COUNT, 100):
        rows: list[tuple[Any, ...]] = [(n, n % 3, VALUES[n].tolist()) for n in range(start, start + 100)]
        rows.append((COUNT + start, 0, None))
        spark.createDataFrame(rows, "id BIGINT, p BIGINT, v ARRAY<FLOAT>").coalesce(1).writeTo(name).append()
        if start == 100:
            spark.sql(f"ALTER TABLE {name} CREATE INDEX v_idx USING ivf_flat (v) WITH (num_partitions = 2)")
    spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    return name


@pytest.fixture
def in_tasks(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(SETTING, "0")
    yield
    spark.conf.unset(SETTING)


def search(spark: SparkSession, table: str, arguments: str = "", columns: str = "*") -> list[tuple[Any, ...]]:
    call = f"vector_search(table => '{table}', query_vector => {QUERY}{arguments})"
    return [tuple(row) for row in spark.sql(f"SELECT {columns} FROM {call}").collect()]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        ", k => 1",
        ", k => 25",
        ", k => 1000",
        ", k => 10, offset => 7",
        ", k => 30, filter => 'p = 1'",
        ", k => 30, filter => 'p = 1 AND id > 300', with_row_id => true",
        ", k => 12, columns => array('_distance', 'id')",
        ", k => 12, columns => array('id', '_rowid')",
        ", k => 12, bypass_vector_index => true",
        ", k => 12, fast_search => true, nprobes => 2",
        ", k => 12, distance_type => 'cosine'",
        ", k => 50, lower_bound => 1.0, upper_bound => 9.0",
        ", k => 5, filter => 'id < 0'",
        ", k => 8, filter => 'p = 2', prefilter => false",
    ],
)
def test_rows_and_their_order_are_those_of_the_planner(spark: SparkSession, table: str, arguments: str) -> None:
    expected = search(spark, table, arguments)
    spark.conf.set(SETTING, "0")
    try:
        assert search(spark, table, arguments) == expected
    finally:
        spark.conf.unset(SETTING)


def test_rows_are_the_nearest(spark: SparkSession, table: str, in_tasks: None) -> None:
    query = np.array([0.5, 0.0, 1.0, -1.0], np.float32)
    distances = np.square(VALUES[LIVE] - query).sum(1)
    found = search(spark, table, ", k => 60, nprobes => 2", "_distance")
    assert [row[0] for row in found] == sorted(distances.tolist())[:60]
    ids = search(spark, table, ", k => 60, nprobes => 2", "id")
    assert {row[0] for row in ids} <= set(LIVE)


def test_plan_has_tasks_for_segments_and_for_rows_without_index(
    spark: SparkSession, table: str, in_tasks: None
) -> None:
    parts = 3 if "partitioned" in table else 1
    query = f"SELECT id FROM vector_search(table => '{table}', query_vector => {QUERY}, k => 5)"
    text = plan(spark.sql(query))
    assert f"tasks={parts + 1} segments={parts} compared=" in text
    assert text.startswith("TakeOrderedAndProject(limit=5")
    only_segments = plan(spark.sql(query.replace("k => 5", "k => 5, fast_search => true")))
    assert "segments=" not in only_segments
    without = plan(spark.sql(query.replace("k => 5", "k => 5, bypass_vector_index => true")))
    assert f"tasks=1 segments=0 compared={(COUNT + 4) * 16} bytes" in without


def test_several_queries_stay_in_the_planner(spark: SparkSession, table: str, in_tasks: None) -> None:
    call = f"vector_search('{table}', array({QUERY}, {QUERY}), 3)"
    rows = spark.sql(f"SELECT query_index, id FROM {call}").collect()
    assert [row[0] for row in rows] == [0, 0, 0, 1, 1, 1]


def test_a_divided_search_is_a_relation(spark: SparkSession, table: str, in_tasks: None) -> None:
    call = f"vector_search('{table}', {QUERY}, 20)"
    nearest = [row[0] for row in search(spark, table, ", k => 20", "id")]
    joined = spark.sql(
        f"SELECT a.id FROM {call} a JOIN {call} b ON a.id = b.id JOIN {table} t ON t.id = a.id WHERE t.p = 1"
    ).collect()
    assert sorted(row[0] for row in joined) == sorted(number for number in nearest if number % 3 == 1)
    assert spark.sql(f"SELECT count(*), max(_distance) IS NULL FROM {call}").collect()[0] == (20, False)


def test_columns_of_the_table_with_names_of_added_columns(spark: SparkSession, in_tasks: None) -> None:
    name = "lance.db.divided_names"
    spark.sql(
        f"CREATE TABLE {name} (_search_part BIGINT, v ARRAY<FLOAT>) USING lance "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (7, array(0.0, 1.0)), (8, array(5.0, 1.0))")
    found = spark.sql(f"SELECT * FROM vector_search('{name}', array(0.0, 1.0), 1)").collect()
    assert [(row[0], row[2]) for row in found] == [(7, 0.0)]


def test_setting_must_be_a_number(spark: SparkSession, table: str, in_tasks: None) -> None:
    spark.conf.set(SETTING, "much")
    with pytest.raises(AnalysisException, match=r"vectorSearch\.inlineBytes is 'much'; it is a number of bytes"):
        search(spark, table)
