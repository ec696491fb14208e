"""``a JOIN b APPROX NEAREST k BY DISTANCE lance_distance(a.v, b.v)`` by searches has the rows of Spark's own join."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan

pytestmark = pytest.mark.since("4.2", "nearest-by joins")

APPROXIMATE = "spark.sql.lance.vectorSearch.approximate"
COUNT, DIMENSION = 300, 6
VALUES = np.random.default_rng(8).normal(size=(COUNT, DIMENSION)).astype(np.float32)
SIZE = f"'v.arrow.fixed-size-list.size' = '{DIMENSION}'"
SEARCH = "lance nearest"


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """300 rows in three fragments, some deleted, some without a vector."""
    name = f"lance.db.joined_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    columns = "id BIGINT, p BIGINT, name STRING, day DATE, price DECIMAL(9, 2), v ARRAY<FLOAT>"
    spark.sql(f"CREATE TABLE {name} ({columns}) {by} TBLPROPERTIES ({SIZE})")
    for start in range(0, COUNT, 100):
        rows = [
            (number, number % 3, f"n{number % 10}", number, None if number % 25 == 3 else VALUES[number].tolist())
            for number in range(start, start + 100)
        ]
        frame = spark.createDataFrame(rows, "id BIGINT, p BIGINT, name STRING, days INT, v ARRAY<FLOAT>").coalesce(1)
        frame.selectExpr(
            "id", "p", "name", "date_add(DATE'2020-01-01', days) AS day", "CAST(id / 4 AS DECIMAL(9, 2)) AS price", "v"
        ).writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id % 13 = 0")
    return name


@pytest.fixture(scope="module")
def queries(spark: SparkSession, table: str) -> str:
    """40 rows with columns of the names that the table has, some without a vector."""
    name = f"{table}_queries"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, name STRING, v ARRAY<FLOAT>) TBLPROPERTIES ({SIZE})")
    rows = [(n, f"q{n}", None if n in (4, 30) else (VALUES[n * 7] + np.float32(0.3)).tolist()) for n in range(40)]
    spark.createDataFrame(rows, "id BIGINT, name STRING, v ARRAY<FLOAT>").coalesce(1).writeTo(name).append()
    return name


@pytest.fixture
def approximate(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(APPROXIMATE, "true")
    yield
    spark.conf.unset(APPROXIMATE)


def rows(spark: SparkSession, query: str) -> list[str]:
    return sorted(map(str, spark.sql(query).collect()))


def compared(spark: SparkSession, query: str, *, searches: bool = True) -> list[str]:
    """The rows of a join, which are the same with and without the setting."""
    expected = rows(spark, query)
    spark.conf.set(APPROXIMATE, "true")
    try:
        text = plan(spark.sql(query))
        assert (SEARCH in text) is searches, text
        assert rows(spark, query) == expected
    finally:
        spark.conf.unset(APPROXIMATE)
    return expected


DISTANCE = "APPROX NEAREST 3 BY DISTANCE lance_distance(q.v, d.v)"
JOINS = [
    f"SELECT * FROM {{q}} q JOIN {{t}} d {DISTANCE}",
    f"SELECT * FROM {{q}} q LEFT JOIN {{t}} d {DISTANCE}",
    "SELECT q.id, d.id FROM {q} q LEFT JOIN {t} d APPROX NEAREST 5 BY DISTANCE lance_distance(d.v, q.v, 'cosine')",
    "SELECT q.id, d.day, d.price FROM {q} q JOIN {t} d APPROX NEAREST 2 BY DISTANCE lance_distance(q.v, d.v, 'dot')",
    # On the side of the queries.
    f"SELECT q.id, d.id FROM (SELECT * FROM {{q}} WHERE id < 9 AND name <> 'q3') q JOIN {{t}} d {DISTANCE}",
    f"SELECT q.id, d.id FROM {{q}} q JOIN {{t}} d {DISTANCE} WHERE q.id BETWEEN 3 AND 12",
    f"SELECT q.x, d.id FROM (SELECT name AS x, max(v) AS v FROM {{q}} GROUP BY name) q LEFT JOIN {{t}} d {DISTANCE}",
    f"SELECT count(*) FROM (SELECT id, array(1F, 0F, 2F, 0F, 3F, CAST(id AS FLOAT)) AS v FROM range(5)) q "
    f"JOIN {{t}} d {DISTANCE}",
    # On the searched side: which rows are searched.
    f"SELECT q.id, d.id FROM {{q}} q JOIN (SELECT * FROM {{t}} WHERE p = 1) d {DISTANCE}",
    f"SELECT q.id, d.id FROM {{q}} q JOIN (SELECT * FROM {{t}} WHERE id > 2 + 30 AND name IN ('n1')) d {DISTANCE}",
    f"SELECT q.id, d.x, d.y FROM {{q}} q LEFT JOIN (SELECT y, x, v FROM (SELECT id AS x, name AS y, v, p FROM {{t}}) "
    f"WHERE x > 100 AND p <> 0) d {DISTANCE}",
    f"SELECT q.id, d.id FROM {{q}} q LEFT JOIN (SELECT * FROM {{t}} WHERE id < 0) d {DISTANCE}",
    f"SELECT q.id, d.id FROM {{q}} q LEFT JOIN (SELECT * FROM {{t}} WHERE id < 2) d {DISTANCE}",
    # After the join.
    f"SELECT q.id, d.id FROM {{q}} q JOIN {{t}} d {DISTANCE} WHERE d.p = 2 AND d.id > q.id",
    f"SELECT d.name, count(*) FROM {{q}} q JOIN {{t}} d {DISTANCE} GROUP BY d.name",
    f"SELECT a.id, d.id FROM {{t}} a JOIN (SELECT q.id, q.v FROM {{q}} q WHERE id < 5) q ON a.id = q.id "
    f"JOIN {{t}} d {DISTANCE}",
    # A table with itself, and two joins.
    f"SELECT q.id, d.id FROM (SELECT * FROM {{t}} WHERE id < 30) q JOIN {{t}} d {DISTANCE}",
    f"WITH near AS (SELECT q.id AS a, d.id AS b, d.v FROM {{q}} q JOIN {{t}} d {DISTANCE}) "
    "SELECT near.a, near.b, e.id FROM near JOIN {t} e APPROX NEAREST 1 BY DISTANCE lance_distance(near.v, e.v)",
    f"SELECT a.id FROM {{q}} a WHERE a.id IN (SELECT d.id FROM {{q}} q JOIN {{t}} d {DISTANCE})",
]


@pytest.mark.parametrize("query", JOINS)
def test_rows_are_those_of_the_join_of_spark(spark: SparkSession, table: str, queries: str, query: str) -> None:
    assert compared(spark, query.format(q=queries, t=table))


OTHERS = [
    "SELECT q.id, d.id FROM {q} q JOIN {t} d EXACT NEAREST 2 BY DISTANCE lance_distance(q.v, d.v)",
    "SELECT q.id, d.id FROM {q} q JOIN {t} d APPROX NEAREST 2 BY SIMILARITY lance_distance(q.v, d.v)",
    "SELECT q.id, d.id FROM {q} q JOIN {t} d APPROX NEAREST 2 BY DISTANCE lance_distance(q.v, d.v) + 1",
    f"SELECT q.id, d.y FROM {{q}} q JOIN (SELECT v, id + 1 AS y FROM {{t}}) d {DISTANCE}",
    f"SELECT q.id, d.id FROM {{q}} q JOIN (SELECT * FROM {{t}} WHERE hash(id) % 2 = 0) d {DISTANCE}",
    f"SELECT q.id, d.id FROM {{q}} q JOIN (SELECT * FROM {{t}} ORDER BY id LIMIT 50) d {DISTANCE}",
    f"SELECT q.id, d.id, d.x FROM {{q}} q JOIN (SELECT v, id, id AS x FROM {{t}}) d {DISTANCE}",
    f"SELECT q.id, d.id FROM {{q}} q JOIN (TABLE {{t}} UNION ALL SELECT * FROM {{t}} WHERE id < 0) d {DISTANCE}",
]


@pytest.mark.parametrize("query", OTHERS)
def test_spark_does_the_joins_that_are_no_searches(spark: SparkSession, table: str, queries: str, query: str) -> None:
    assert compared(spark, query.format(q=queries, t=table), searches=False)


def test_views_are_left_to_spark(spark: SparkSession, table: str, queries: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW some_rows AS SELECT id, v FROM {table} WHERE p = 1")
    compared(spark, f"SELECT q.id, d.id FROM {queries} q JOIN some_rows d {DISTANCE}", searches=False)


def test_an_older_version_is_searched(spark: SparkSession, table: str, queries: str) -> None:
    version = spark.sql(f"SELECT max(version) FROM {table}.versions").collect()[0][0] - 1
    older = compared(spark, f"SELECT q.id, d.id FROM {queries} q JOIN {table} VERSION AS OF {version} d {DISTANCE}")
    assert any(re.search(r"id=(13|26|39|52|65|78|91)\)", row) for row in older), "rows that were deleted since"


def test_plans_name_the_search_and_its_columns_only(
    spark: SparkSession, table: str, queries: str, approximate: None
) -> None:
    join = f"(SELECT * FROM {queries} WHERE id < 7) q JOIN (SELECT * FROM {table} WHERE p = 1 AND id > 5) d {DISTANCE}"
    text = plan(spark.sql(f"SELECT d.name, q.id FROM {join}"))
    assert f"{SEARCH} {table} k=3 metric=l2 index=none partitions=0 unindexed=" in text
    assert "filter=[" in text
    assert "p = 1" in text
    assert "columns=[name](v#" in text
    assert "Join" not in text, "no pairs of rows are compared"
    # Above the join, too, a condition on the queries decides which of them are searched.
    text = plan(spark.sql(f"SELECT d.id FROM {queries} q JOIN {table} d {DISTANCE} WHERE q.id < 7"))
    assert "filters=[id IS NOT NULL AND id < 7]" in text


def test_many_queries_of_one_file_are_searched_by_all_cores(
    spark: SparkSession, table: str, approximate: None, tmp_path: Path
) -> None:
    vectors = "transform(sequence(1, 6), i -> CAST(sin(id * i) AS FLOAT)) AS v"
    spark.range(3000).coalesce(1).selectExpr("id", vectors).write.parquet(str(tmp_path / "q"))
    frame = spark.sql(f"SELECT q.id, d.id AS found FROM parquet.`{tmp_path}/q` q JOIN {table} d {DISTANCE}")
    assert "Exchange RoundRobinPartitioning(2)" in plan(frame)
    found = frame.where("q.id = 17").collect()
    query = np.sin(17 * np.arange(1, 7)).astype(np.float32)
    live = [n for n in range(COUNT) if n % 13 and n % 25 != 3]
    wanted = [live[place] for place in np.argsort(np.square(VALUES[live] - query).sum(1))[:3]]
    assert sorted(row.found for row in found) == sorted(wanted)
    assert frame.count() == 9000


def test_vectors_of_another_length_are_an_error(spark: SparkSession, table: str, approximate: None) -> None:
    query = f"SELECT d.id FROM (SELECT array(1F, CAST(id AS FLOAT)) AS v FROM range(2)) q JOIN {table} d {DISTANCE}"
    with pytest.raises(PySparkException, match=f"the vector has {DIMENSION} values, the query 2"):
        spark.sql(query).collect()


@pytest.mark.slow
def test_null_items_count_as_zero(spark: SparkSession, table: str) -> None:
    vector = "array(1F, CAST(NULL AS FLOAT), 0F, 0.5F, 0F, CAST(id AS FLOAT))"
    compared(spark, f"SELECT q.id, d.id FROM (SELECT id, {vector} AS v FROM range(4)) q JOIN {table} d {DISTANCE}")


@pytest.mark.slow
def test_an_index_finds_most_of_the_nearest(spark: SparkSession, approximate: None) -> None:
    name, by = "lance.db.joined_indexed", "PARTITIONED BY (p)"
    for kind, clause in (("a", ""), ("b", by)):
        table = f"{name}_{kind}"
        spark.sql(f"CREATE TABLE {table} (id BIGINT, p BIGINT, v ARRAY<FLOAT>) {clause} TBLPROPERTIES ({SIZE})")
        vector = f"transform(sequence(1, {DIMENSION}), i -> CAST(sin(id * i * i) AS FLOAT))"
        spark.sql(f"INSERT INTO {table} SELECT id, id % 2, {vector} FROM range(0, 2000, 1, 1)")
        spark.sql(f"ALTER TABLE {table} CREATE INDEX by_v USING ivf_flat (v) WITH (num_partitions = 16)")
        spark.sql(f"INSERT INTO {table} SELECT id, id % 2, {vector} FROM range(2000, 2050, 1, 1)")
        searched = f"(SELECT * FROM {table} WHERE id <> 7) d"
        query = (
            f"SELECT q.id, d.id AS found FROM (SELECT * FROM {table} WHERE id % 50 = 7) q JOIN {searched} {DISTANCE}"
        )
        text = plan(spark.sql(query))
        assert f"index=by_v partitions={32 if clause else 16} unindexed=50" in text
        found = {(row.id, row.found) for row in spark.sql(query).collect()}
        spark.conf.set(APPROXIMATE, "false")
        nearest = {(row.id, row.found) for row in spark.sql(query).collect()}
        spark.conf.set(APPROXIMATE, "true")
        assert len(found) == len(nearest) == 3 * 41
        assert len(found & nearest) >= 0.9 * len(nearest)
        assert {(n, n) for n in range(57, 2050, 50)} <= found
        assert all(other != 7 for _, other in found)
        # The index has another metric.
        assert "index=none" in plan(spark.sql(query.replace("d.v)", "d.v, 'cosine')")))
