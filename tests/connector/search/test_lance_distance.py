"""`lance_distance`, and ORDER BY of it with LIMIT as a search of the table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.sql_distance import SqlDistance
from tests.support.connector.metrics import metrics
from tests.support.connector.plans import plan

COUNT, DIMENSION = 400, 11
TOP_N = "spark.sql.lance.topN.enabled"


def values() -> np.ndarray:
    found = np.random.default_rng(5).normal(size=(COUNT, DIMENSION)).astype(np.float32)
    found[50] = 0
    found[60, 3] = np.nan
    found[70, 0] = np.inf
    found[81] = found[80]
    return found


VALUES = values()
QUERY = VALUES[80]
ARRAY = f"array({', '.join(f'{value!r}D' for value in QUERY.tolist())})"


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """Rows of which every ninth has no vector, in two fragments, some of them deleted; the view `theirs` has the same
    in Parquet."""
    name = f"lance.distance_{request.param}"
    clause = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    sizes = ", ".join(f"'{column}.arrow.fixed-size-list.size' = '{DIMENSION}'" for column in ("v", "w"))
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p BIGINT, v ARRAY<FLOAT>, w ARRAY<DOUBLE>) {clause} TBLPROPERTIES ({sizes})"
    )
    rows = [
        (number, number % 3, *([None, None] if number % 9 == 4 else [VALUES[number].tolist()] * 2))
        for number in range(COUNT)
    ]
    frame = spark.createDataFrame(rows, "id BIGINT, p BIGINT, v ARRAY<FLOAT>, w ARRAY<DOUBLE>").coalesce(1)
    frame.where("id < 300").writeTo(name).append()
    frame.where("id >= 300").writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id % 20 = 19")
    return name


@pytest.fixture(scope="module")
def theirs(spark: SparkSession, table: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("parquet") / "t")
    spark.table(table).write.parquet(path)
    return f"parquet.`{path}`"


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_the_jvm_and_scans_have_the_same_bits(spark: SparkSession, tmp_path: Path, metric: str) -> None:
    for item, dtype in ((pa.float32(), np.float32), (pa.float64(), np.float64)):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(VALUES.astype(dtype).ravel(), item), DIMENSION)
        uri = str(tmp_path / str(item))
        lance_spark.write(pa.table({"id": range(COUNT), "v": vectors}), uri)
        known = SqlDistance.of(vectors.type, Metric.named(metric), tuple(map(float, QUERY)))
        assert known is not None
        for function in ("lance_distance", "lance.lance_distance"):
            found = spark.read.format("lance").load(uri).selectExpr(f"{function}(v, {ARRAY}, '{metric}') AS d", "id")
            ours = np.array([row.d for row in found.orderBy("id").collect()], np.float32)
            np.testing.assert_array_equal(ours, known.values(vectors).to_numpy())


def test_values_nulls_and_types(spark: SparkSession) -> None:
    (row,) = spark.sql(
        """SELECT lance_distance(array(1.0, 2.0), array(1.0, 4.0)) AS l2,
        lance_distance(array(0.0F, 2.0F), array(0, 4), 'COSINE') AS cosine,
        lance_distance(array(1.0D, 2.0D), array(3.0F, 4.0F), 'dot') AS dot,
        lance_distance(array(255, 1), array(254S, 1S), 'hamming') AS hamming,
        lance_distance(array(1.0F, NULL), array(1.0F, 2.0F)) AS item,
        lance_distance(NULL, array(1.0F)) AS vector, lance_distance(array(1.0F), NULL) AS query,
        lance_distance(array(1.0F), array(1.0F), NULL) AS metric,
        typeof(lance_distance(array(1.0D), array(1.0D))) AS type"""
    ).collect()
    assert row.asDict() == {
        "l2": 4.0, "cosine": 0.0, "dot": -10.0, "hamming": 1.0, "item": 4.0, "vector": None, "query": None,
        "metric": None, "type": "float",
    }  # fmt: skip
    assert "lance_distance" in {row[0] for row in spark.sql("SHOW FUNCTIONS LIKE 'lance_distance'").collect()}
    usage = spark.sql("DESCRIBE FUNCTION lance_distance").collect()
    assert any("hamming" in row[0] for row in usage)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("array(1.0F), array(1.0F, 2.0F)", "the vector has 1 values, the query 2"),
        ("array(1.0F), array(1.0F), 'far'", "there is no metric 'far'"),
        ("array(1.0F), array(1.0F), 'hamming'", "whole numbers from 0 to 255"),
        ("array(1), array(256), 'hamming'", "whole numbers from 0 to 255"),
        ("array(1), array(1), 'l2'", "cast them to ARRAY<FLOAT>"),
        ("array('x'), array(1.0F)", "does not take arguments of types"),
        ("array(1.0F)", "does not take arguments of types"),
    ],
)
def test_wrong_arguments_are_refused(spark: SparkSession, arguments: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(f"SELECT lance_distance({arguments})").collect()


def test_wrong_lengths_in_a_table_are_refused(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match=f"the vector has {DIMENSION} values, the query 1"):
        spark.sql(f"SELECT id FROM {table} ORDER BY lance_distance(v, array(1.0F)) LIMIT 3").collect()


def rows(spark: SparkSession, query: str) -> list[str]:
    return list(map(str, spark.sql(query).collect()))


DISTANCE = f"lance_distance(v, {ARRAY})"
QUERIES = [
    f"SELECT id, {DISTANCE} AS d FROM {{}} ORDER BY d NULLS LAST, id LIMIT 20",
    f"SELECT id FROM {{}} WHERE v IS NOT NULL AND id > 100 ORDER BY {DISTANCE}, id LIMIT 7 OFFSET 3",
    f"SELECT id, {DISTANCE} FROM {{}} ORDER BY {DISTANCE}, id LIMIT 60",
    f"SELECT id, v FROM {{}} WHERE p = 1 ORDER BY lance_distance(v, {ARRAY}, 'cosine') DESC, id LIMIT 5",
    f"SELECT id FROM {{}} ORDER BY lance_distance(v, {ARRAY}, 'dot') DESC NULLS FIRST, id DESC LIMIT 50",
    f"SELECT id FROM {{}} ORDER BY p, lance_distance(w, {ARRAY}, 'cosine') NULLS LAST, id LIMIT 9",
    f"SELECT id FROM {{}} WHERE v IS NOT NULL ORDER BY lance_distance(v, {ARRAY}, 'cosine') DESC, id LIMIT 4",
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_first_rows_by_distance_are_those_of_spark(
    spark: SparkSession, table: str, theirs: str, query: str
) -> None:
    ours = query.format(table)
    found = rows(spark, ours)
    assert re.search(r"top=\d+ search=lance_distance\([vw], \w+\) exact", plan(spark.sql(ours)))
    assert found == rows(spark, query.format(theirs))
    spark.conf.set(TOP_N, "false")
    try:
        assert "top=" not in plan(spark.sql(ours))
        assert rows(spark, ours) == found
    finally:
        spark.conf.unset(TOP_N)


def test_ties_and_nulls_without_a_second_key(spark: SparkSession, table: str) -> None:
    query = f"SELECT id, {DISTANCE} AS d FROM {table} ORDER BY d LIMIT 200"
    found = spark.sql(query).collect()
    nulls = {number for number in range(COUNT) if number % 9 == 4 and number % 20 != 19}
    assert {row.id for row in found[: len(nulls)]} == nulls
    assert {row.id for row in found[len(nulls) : len(nulls) + 2]} == {80, 81}
    assert [row.d for row in found[len(nulls) :]] == sorted(row.d for row in found[len(nulls) :])


def test_in_where_and_in_joins(spark: SparkSession, table: str, theirs: str) -> None:
    query = f"SELECT id FROM {{}} WHERE {DISTANCE} < 15 ORDER BY id"
    assert rows(spark, query.format(table)) == rows(spark, query.format(theirs)) != []
    pairs = (
        f"SELECT a.id, b.id AS other FROM {table} a JOIN {table} b ON lance_distance(a.v, b.v) < 0.5 AND a.id < b.id"
    )
    assert [(row.id, row.other) for row in spark.sql(pairs).collect()] == [(80, 81)]


APPROXIMATE = "spark.sql.lance.vectorSearch.approximate"


@pytest.mark.slow
def test_an_index_is_used_if_approximate_answers_are_allowed(spark: SparkSession) -> None:
    for kind, clause in (("plain", ""), ("partitioned", "PARTITIONED BY (p)")):
        name = f"lance.approximate_{kind}"
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT, p BIGINT, v ARRAY<FLOAT>) {clause} "
            "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '4')"
        )
        vector = "array(sin(id), cos(id), sin(3 * id), cos(7 * id))"
        of_row = f"id, id % 2 AS p, IF(id % 50 = 7, NULL, CAST({vector} AS ARRAY<FLOAT>)) AS v"
        spark.sql(f"INSERT INTO {name} SELECT {of_row} FROM range(0, 1000, 1, 1)")
        spark.sql(f"ALTER TABLE {name} CREATE INDEX by_v USING ivf_flat (v) WITH (num_partitions = 8)")
        spark.sql(f"INSERT INTO {name} SELECT {of_row} FROM range(1000, 1040, 1, 1)")
        spark.sql(f"DELETE FROM {name} WHERE id IN (100, 101)")
        call = "lance_distance(v, array(0.1, 0.9, 0.2, 0.8))"
        nearest = f"SELECT id, {call} AS d FROM {name} ORDER BY d NULLS LAST LIMIT 10"
        assert "search=lance_distance(v, l2) exact" in plan(spark.sql(nearest))
        exact = [(row.id, row.d) for row in spark.sql(nearest).collect()]
        distances = {row.id: row.d for row in spark.sql(f"SELECT id, {call} AS d FROM {name}").collect()}
        spark.conf.set(APPROXIMATE, "true")
        try:
            frame = spark.sql(nearest)
            partitions = 16 if kind == "partitioned" else 8
            expected = rf"search=lance_distance\(v, l2\) index=by_v partitions=(\d+) of {partitions}"
            probed = re.search(expected, plan(frame))
            assert probed is not None
            found = [(row.id, row.d) for row in frame.collect()]
            assert len(found) == 10
            assert found[0] == exact[0]
            assert all(distances[key] == distance for key, distance in found)
            assert len({key for key, _ in found} & {key for key, _ in exact}) >= 8
            names = ["index_segments_searched", "index_partitions_probed", "index_rows_compared", "rows_compared"]
            counted = metrics(frame, names)
            assert counted["index_segments_searched"] == partitions // 8
            assert counted["index_partitions_probed"] == int(probed.group(1))
            assert counted["rows_compared"] >= 40
            assert counted["index_rows_compared"] > 0
            filtered = nearest.replace("ORDER", "WHERE id > 300 ORDER")
            assert "index=by_v" in plan(spark.sql(filtered))
            wanted = sorted(
                (distance, key) for key, distance in distances.items() if key > 300 and distance is not None
            )
            # So few rows pass the filter that all of them are compared.
            assert [row.id for row in spark.sql(filtered).collect()] == [key for _, key in wanted[:10]]
            for others in (
                nearest.replace("NULLS LAST", ""),  # rows without a vector come first
                nearest.replace("NULLS LAST", "DESC"),
                nearest.replace("NULLS LAST", "NULLS LAST, id"),
                nearest.replace("array(0.1, 0.9, 0.2, 0.8)", "array(0.1, 0.9, 0.2, 0.8), 'dot'"),
                nearest.replace("LIMIT 10", "LIMIT 5000"),
            ):
                assert " exact" in plan(spark.sql(others))
            filled = f"SELECT id FROM {name} WHERE v IS NOT NULL ORDER BY {call} LIMIT 3 OFFSET 2"
            assert "index=by_v" in plan(spark.sql(filled))
            assert len(spark.sql(filled).collect()) == 3
            search = spark.sql(f"SELECT id FROM vector_search('{name}', array(0.1, 0.9, 0.2, 0.8), 3)")
            assert len(search.collect()) == 3
            assert metrics(search, names)["index_segments_searched"] == partitions // 8
        finally:
            spark.conf.unset(APPROXIMATE)
        spark.conf.set(APPROXIMATE, "yes")
        try:
            with pytest.raises(PySparkException, match="set it to true or false"):
                spark.sql(nearest).collect()
        finally:
            spark.conf.unset(APPROXIMATE)
