"""Searches in tasks return the rows of searches in the planner process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.metrics import metrics
from tests.support.connector.plans import plan
from tests.support.connector.scan_requests import sent

SETTING = "spark.sql.lance.vectorSearch.inlineBytes"
COUNT = 400
VALUES = np.random.default_rng(5).integers(-3, 4, size=(COUNT, 4)).astype(np.float32)
"""Small whole numbers: many rows are equally near."""
QUERY = "array(0.5, 0.0, 1.0, -1.0)"
QUERIES = f"array({QUERY}, array(0.0, 0.0, 0.0, 0.0), array(-3.0, 2.0, 1.0, 0.5), {QUERY}, array(1.0, 1.0, 1.0, 1.0))"
WORDS = ["sea", "lake", "wood", "rare tree", "sea and wood"]
LIVE = [number for number in range(COUNT) if number % 7]


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """400 rows in several fragments, every seventh deleted, an index of the first half, and rows without a vector."""
    name = f"lance.db.divided_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p BIGINT, v ARRAY<FLOAT>, text STRING) USING lance {by} "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '4')"
    )
    for start in range(0, COUNT, 100):
        rows: list[tuple[Any, ...]] = [(n, n % 3, VALUES[n].tolist(), WORDS[n % 5]) for n in range(start, start + 100)]
        rows.append((COUNT + start, 0, None, "rare"))
        schema = "id BIGINT, p BIGINT, v ARRAY<FLOAT>, text STRING"
        spark.createDataFrame(rows, schema).coalesce(1).writeTo(name).append()
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
    return rows(spark, f"SELECT {columns} FROM {call}")


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


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
    both_ways(spark, f"SELECT * FROM vector_search(table => '{table}', query_vector => {QUERY}{arguments})")


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        ", k => 40, with_row_id => true",
        ", k => 1000, columns => array('_distance', 'id')",
        ", k => 12, filter => 'p = 1 AND id > 150'",
        ", k => 12, filter => 'p = 1 AND id > 150', prefilter => false",
        ", k => 12, distance_type => 'cosine', bypass_vector_index => true",
        ", k => 12, fast_search => true",
        ", k => 30, upper_bound => 6.0",
        ", k => 5, filter => 'id < 0'",
    ],
)
def test_several_queries_have_the_rows_of_the_planner(spark: SparkSession, table: str, arguments: str) -> None:
    both_ways(spark, f"SELECT * FROM vector_search(table => '{table}', query_vector => {QUERIES}{arguments})")


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        ", k => 30, with_row_id => true",
        ", k => 7, offset => 5, candidates => 40",
        ", k => 7, fusion => 'linear', vector_weight => 0.7, candidates => 25",
        ", k => 9, filter => 'p = 1 AND id > 150', columns => array('id')",
        ", k => 9, filter => 'p = 7'",
        ", k => 9, bypass_vector_index => true, distance_type => 'dot'",
        ", k => 9, fast_search => true, nprobes => 1",
    ],
)
def test_hybrid_searches_have_the_rows_of_the_planner(spark: SparkSession, table: str, arguments: str) -> None:
    call = f"hybrid_search(table => '{table}', query_vector => {QUERY}, query => 'rare tree'{arguments})"
    both_ways(spark, f"SELECT * FROM {call}")


def both_ways(spark: SparkSession, query: str) -> None:
    """The rows and their order are the same in the planner process and in tasks."""
    here = spark.sql(query)
    assert " tasks=" not in plan(here)
    expected = [tuple(row) for row in here.collect()]
    spark.conf.set(SETTING, "0")
    try:
        there = spark.sql(query)
        assert " tasks=" in plan(there) or "fast_search" in query or "p = 7" in query, "there is nothing to compare"
        assert [tuple(row) for row in there.collect()] == expected
        counts = [metrics(frame, list(COUNTS)) for frame in (here, there)]
        assert counts[0] == counts[1]
        assert counts[0]["rows_read"] == len(expected)
    finally:
        spark.conf.unset(SETTING)


COUNTS = ("index_segments_searched", "index_partitions_probed", "index_rows_compared", "rows_compared", "rows_read")


def test_rows_are_the_nearest(spark: SparkSession, table: str, in_tasks: None) -> None:
    query = np.array([0.5, 0.0, 1.0, -1.0], np.float32)
    distances = np.square(VALUES[LIVE] - query).sum(1)
    found = search(spark, table, ", k => 60, nprobes => 2", "_distance")
    assert [row[0] for row in found] == sorted(distances.tolist())[:60]
    ids = search(spark, table, ", k => 60, nprobes => 2", "id")
    assert {row[0] for row in ids} <= set(LIVE)


def test_plans_and_metrics_name_tasks_index_partitions_and_rows(
    spark: SparkSession, table: str, in_tasks: None
) -> None:
    parts = 3 if "partitioned" in table else 1
    hybrid = f"hybrid_search(table => '{table}', query_vector => {QUERY}, query => 'rare', k => 5)"
    for call, queries in (
        (f"vector_search(table => '{table}', query_vector => {QUERY}, k => 5)", 1),
        (f"vector_search(table => '{table}', query_vector => {QUERIES}, k => 5)", 5),
        (hybrid, 1),
    ):
        frame = spark.sql(f"SELECT id FROM {call}")
        name = call.split("(")[0]
        shown = f"lance {name} {table} columns=[id] tasks={parts + 1} index=v_idx partitions="
        assert f"{shown}{2 * parts} unindexed=" in plan(frame)
        count = len(frame.collect())
        text = plan(frame)
        assert shown in text
        assert f" of {2 * parts * queries} index_rows=" in text
        told = metrics(frame, list(COUNTS))
        assert told["index_segments_searched"] == parts
        assert f"partitions={told['index_partitions_probed']} of" in text
        assert f"index_rows={told['index_rows_compared']} compared={told['rows_compared']}" in text
        assert told["rows_compared"] >= len([number for number in LIVE if number >= 200])
        assert told["rows_read"] == count
    without = f"SELECT id FROM vector_search(table => '{table}', query_vector => {QUERY}, bypass_vector_index => true)"
    live = len(LIVE) + len([number for number in range(COUNT, 2 * COUNT, 100) if number % 7])
    frame = spark.sql(without)
    frame.collect()
    assert f"tasks=1 index=none compared={live}" in plan(frame)


def test_a_plan_that_is_shown_runs_no_job(spark: SparkSession, table: str, in_tasks: None) -> None:
    before = sent(spark)["search.finish"]
    call = f"vector_search(table => '{table}', query_vector => {QUERY}, k => 3)"
    shown = spark.sql(f"EXPLAIN FORMATTED SELECT id FROM {call}").collect()[0][0]
    joined = spark.sql(f"EXPLAIN COST SELECT * FROM {call} a JOIN {table} b ON a.id = b.id").collect()[0][0]
    assert " unindexed=" in shown
    assert " unindexed=" in joined
    assert sent(spark)["search.finish"] == before
    assert len(spark.sql(f"SELECT id FROM {call}").collect()) == 3
    assert sent(spark)["search.finish"] == before + 1


def test_many_vectors_for_many_queries_are_divided(spark: SparkSession, table: str) -> None:
    """Vectors count once for each 128 queries."""
    num_bytes = (COUNT + 4) * 16
    one, many = f"array({QUERY})", f"array({', '.join([QUERY] * 129)})"
    spark.conf.set(SETTING, str(num_bytes))
    try:
        call = "SELECT id FROM vector_search(table => '{}', query_vector => {}, k => 1, bypass_vector_index => true)"
        assert " tasks=" not in plan(spark.sql(call.format(table, one)))
        assert " tasks=" in plan(spark.sql(call.format(table, many)))
        spark.conf.set(SETTING, str(num_bytes - 1))
        assert " tasks=" in plan(spark.sql(call.format(table, one)))
    finally:
        spark.conf.unset(SETTING)


def test_a_divided_search_is_a_relation(spark: SparkSession, table: str, in_tasks: None) -> None:
    call = f"vector_search('{table}', {QUERY}, 20)"
    nearest = [row[0] for row in search(spark, table, ", k => 20", "id")]
    joined = spark.sql(
        f"SELECT a.id FROM {call} a JOIN {call} b ON a.id = b.id JOIN {table} t ON t.id = a.id WHERE t.p = 1"
    ).collect()
    assert sorted(row[0] for row in joined) == sorted(number for number in nearest if number % 3 == 1)
    assert spark.sql(f"SELECT count(*), max(_distance) IS NULL FROM {call}").collect()[0] == (20, False)


def test_setting_must_be_a_number(spark: SparkSession, table: str, in_tasks: None) -> None:
    spark.conf.set(SETTING, "much")
    with pytest.raises(AnalysisException, match=r"vectorSearch\.inlineBytes is 'much'; it is a number of bytes"):
        search(spark, table)
