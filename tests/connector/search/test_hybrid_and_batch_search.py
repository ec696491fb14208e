from __future__ import annotations

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidInputError
from tests.support.connector.metrics import metrics
from tests.support.connector.plans import plan as scanned

VALUES = np.random.default_rng(13).normal(size=(120, 4)).astype(np.float32)
QUERY = VALUES[40]
ARRAY = f"array({', '.join(map(str, QUERY.tolist()))})"
COLUMNS = "id BIGINT, p BIGINT, text STRING, v ARRAY<FLOAT>"


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    name = f"lance.db.hybrid_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING lance {by} TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '4')")
    words = ["sea", "lake", "wood"]
    rows = [
        (number, number % 3, f"{words[number % 3]} {'rare' if number % 40 == 0 else ''}", VALUES[number].tolist())
        for number in range(len(VALUES))
    ]
    spark.createDataFrame(rows, COLUMNS).writeTo(name).append()
    return name


def dataset(spark: SparkSession, table: str) -> lance_spark.Dataset:
    uri = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()[0][1]
    opened = lance_spark.open(uri)
    assert isinstance(opened, (lance_spark.Dataset, lance_spark.PartitionedDataset))
    return opened  # type: ignore[return-value]


@pytest.mark.slow
def test_hybrid_search_has_the_rows_of_python(spark: SparkSession, table: str) -> None:
    found = spark.sql(
        f"SELECT * FROM hybrid_search(table => '{table}', query_vector => {ARRAY}, query => 'rare', k => 5, "
        "candidates => 20, vector_column => 'v', filter => 'id > 3', with_row_id => true)"
    )
    assert found.columns == ["id", "p", "text", "v", "_distance", "_score", "_relevance_score", "_rowid"]
    rows = found.orderBy("_relevance_score", ascending=False).collect()
    expected = dataset(spark, table).hybrid_search("v", QUERY, "rare", 5, candidates=20, filter="id > 3")
    assert sorted(row["id"] for row in rows) == sorted(expected["id"].to_pylist())
    assert rows[0]["id"] == 40
    np.testing.assert_allclose(
        [row["_relevance_score"] for row in rows], expected["_relevance_score"].to_pylist(), 1e-6
    )
    positional = spark.sql(f"SELECT id FROM HYBRID_SEARCH('{table}', {ARRAY}, 'rare', 2)").collect()
    assert 40 in [row["id"] for row in positional]
    linear = spark.sql(
        f"SELECT id, _score FROM hybrid_search(table => '{table}', query_vector => {ARRAY}, search_query => 'rare', "
        "num_results => 3, candidates => 4, fusion => 'linear', vector_weight => 1.0, columns => array('id'))"
    )
    nearest = dataset(spark, table).nearest("v", QUERY, 3)["id"].to_pylist()
    assert sorted(row["id"] for row in linear.collect()) == sorted(nearest)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("query => 'rare'", "needs the argument query_vector"),
        ("query_vector => {array}", "needs the argument query"),
        ("query_vector => {array}, query => 'rare', nearest => 3", "no argument 'nearest'"),
        ("query_vector => {array}, query => 'rare', fusion => 'sum'", "no fusion 'sum'"),
        ("query_vector => array(1.0), query => 'rare'", "the query has 1 values"),
        ("query_vector => {array}, query => 'rare', ef => 2", "ef must be at least k"),
    ],
)
def test_wrong_arguments_of_hybrid_search(spark: SparkSession, table: str, arguments: str, message: str) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.sql(f"SELECT * FROM hybrid_search(table => '{table}', {arguments.format(array=ARRAY)})").collect()
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def queries(spark: SparkSession, table: str) -> str:
    name = f"{table}_queries"
    spark.sql(
        f"CREATE TABLE {name} (q BIGINT, w ARRAY<FLOAT>) USING lance "
        "TBLPROPERTIES ('w.arrow.fixed-size-list.size' = '4')"
    )
    rows = [(number, None if number == 7 else VALUES[number * 3].tolist()) for number in range(30)]
    spark.createDataFrame(rows, "q BIGINT, w ARRAY<FLOAT>").writeTo(name).append()
    return name


def test_batch_search_finds_the_nearest_rows_of_each_query(
    spark: SparkSession, table: str, queries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = spark.sql(
        f"SELECT q, id, _distance FROM vector_search_batch(table => '{table}', queries => '{queries}', k => 3, "
        "filter => 'p <> 1')"
    )
    kept = [number for number in range(len(VALUES)) if number % 3 != 1]
    expected = set()
    for number in range(30):
        if number != 7:
            order = np.argsort(np.square(VALUES[kept] - VALUES[number * 3]).sum(1), kind="stable")[:3]
            expected |= {(number, kept[place]) for place in order}
    assert {(row["q"], row["id"]) for row in found.collect()} == expected
    assert spark.sql(f"SELECT * FROM vector_search_batch('{table}', '{queries}', 1)").columns == [
        "q",
        "id",
        "p",
        "text",
        "v",
        "_distance",
    ]
    plan = spark.sql(f"EXPLAIN SELECT q FROM vector_search_batch('{table}', '{queries}', 1)").collect()[0][0]
    assert f"lance vector_search_batch {table} queries={queries} columns=[q] tasks=1 num_queries=30 k=1" in plan
    assert f"index=none partitions=0 unindexed={len(VALUES)}" in plan
    assert spark.sql(f"SELECT count(*) FROM vector_search_batch('{table}', '{queries}', 2)").collect()[0][0] == 58


def test_metrics_of_batch_searches_are_those_of_all_tasks(spark: SparkSession, table: str, queries: str) -> None:
    spark.sql(f"ALTER TABLE {table} CREATE INDEX by_v USING ivf_flat (v) WITH (num_partitions = 2)")
    try:
        call = f"vector_search_batch(table => '{table}', queries => '{many(spark, queries)}', nprobes => 1)"
        frame = spark.sql(f"SELECT q, id FROM {call}")
        parts = 3 if "partitioned" in table else 1
        assert f"tasks=2 num_queries=1160 k=10 index=by_v partitions={2 * parts} unindexed=0" in scanned(frame)
        assert len(frame.collect()) == 11600
        names = ["index_segments_searched", "index_partitions_probed", "index_rows_compared", "rows_compared"]
        told = metrics(frame, [*names, "rows_read"])
        assert told["rows_read"] == 11600
        # 1,160 queries are searched 256 at a time, 1,024 in the first task.
        assert told["index_segments_searched"] == 5 * parts
        # A query with fewer than k rows in its partition takes another.
        assert 1160 * parts <= told["index_partitions_probed"] <= 2320 * parts
        assert told["index_rows_compared"] >= 11600
    finally:
        spark.sql(f"ALTER TABLE {table} DROP INDEX by_v")


def many(spark: SparkSession, queries: str) -> str:
    """A table of 1,160 queries."""
    name = f"{queries}_many"
    spark.sql(
        f"CREATE TABLE {name} (q BIGINT, w ARRAY<FLOAT>) USING lance "
        "TBLPROPERTIES ('w.arrow.fixed-size-list.size' = '4')"
    )
    spark.sql(f"INSERT INTO {name} SELECT r.id * 100 + q, w FROM {queries} CROSS JOIN range(40) r WHERE w IS NOT NULL")
    return name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("k => 3", "takes the name of a table of queries"),
        ("queries => 'lance.db.nothing_here'", "cannot be found"),
        ("queries => '{queries}', query_column => 'q'", "not a vector"),
        ("queries => '{queries}', query_column => 'x'", "no column 'x'"),
        ("queries => '{queries}', query_columns => array('x')", "no column 'x'"),
        ("queries => '{table}'", "both have a column id"),
        ("queries => '{queries}', offset => 1", "no argument 'offset'"),
    ],
)
def test_wrong_arguments_of_batch_search(
    spark: SparkSession, table: str, queries: str, arguments: str, message: str
) -> None:
    text = arguments.format(table=table, queries=queries)
    with pytest.raises(PySparkException) as caught:
        spark.sql(f"SELECT * FROM vector_search_batch(table => '{table}', {text})").collect()
    assert message in str(caught.value)


def test_searches_from_python_are_data_frames(spark: SparkSession, table: str) -> None:
    near = lance_spark.search(spark, table, QUERY, k=4, filter="id <> 41 and text <> 'it''s'", columns=["id"])
    assert near.columns == ["id", "_distance"]
    expected = dataset(spark, table).nearest("v", QUERY, 4, filter="id <> 41")["id"].to_pylist()
    assert [row["id"] for row in near.orderBy("_distance").collect()] == expected
    assert lance_spark.search(spark, table, text="rare", limit=2).count() == 2
    both = lance_spark.search(spark, table, QUERY, "rare", k=3)
    assert "_relevance_score" in both.columns
    assert lance_spark.search(spark, table, VALUES[:2], k=3).count() == 6
    with pytest.raises(InvalidInputError, match="a vector, words, or both"):
        lance_spark.search(spark, table)


def test_several_queries_with_an_offset_are_refused(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="cannot have an offset"):
        spark.sql(
            f"SELECT * FROM vector_search(table => '{table}', query_vector => array({ARRAY}, {ARRAY}), offset => 1)"
        )
