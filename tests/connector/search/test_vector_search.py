from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import lance_spark

VALUES = np.random.default_rng(11).normal(size=(120, 4)).astype(np.float32)
QUERY = VALUES[40]
ARRAY = f"array({', '.join(map(str, QUERY.tolist()))})"


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    name = f"lance.db.vectors_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p BIGINT, `the text` STRING, v ARRAY<FLOAT>) USING lance {by} "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '4')"
    )
    rows = [(number, number % 3, f"t{number}", VALUES[number].tolist()) for number in range(len(VALUES))]
    spark.createDataFrame(rows, "id BIGINT, p BIGINT, `the text` STRING, v ARRAY<FLOAT>").writeTo(name).append()
    return name


def nearest(k: int, ids: list[int] | None = None, query: Any = QUERY) -> list[int]:
    known = list(range(len(VALUES))) if ids is None else ids
    return [known[place] for place in np.argsort(np.square(VALUES[known] - query).sum(1), kind="stable")[:k]]


def ids(spark: SparkSession, statement: str) -> list[int]:
    return [row["id"] for row in spark.sql(statement).collect()]


def test_named_arguments(spark: SparkSession, table: str) -> None:
    found = spark.sql(
        f"SELECT * FROM VECTOR_SEARCH(table => '{table}', query_vector => {ARRAY}, vector_column => 'v', k => 5)"
    )
    assert found.columns == ["id", "p", "the text", "v", "_distance"]
    assert found.schema["_distance"].dataType == st.FloatType()
    rows = found.orderBy("_distance").collect()
    assert [row["id"] for row in rows] == nearest(5)
    assert rows[0]["the text"] == "t40"
    np.testing.assert_allclose(rows[1]["_distance"], np.square(VALUES[rows[1]["id"]] - QUERY).sum(), 1e-5)


def test_positional_arguments_and_a_column_that_is_found(spark: SparkSession, table: str) -> None:
    assert ids(spark, f"SELECT id FROM vector_search('{table}', {ARRAY}, 3) ORDER BY _distance") == nearest(3)


def test_a_filter_an_offset_and_columns(spark: SparkSession, table: str) -> None:
    found = spark.sql(
        f"SELECT * FROM vector_search(table => '{table}', query_vector => {ARRAY}, num_results => 4, offset => 2, "
        "filter => 'p = 1', columns => array('_distance', 'ID'), with_row_id => true)"
    )
    assert found.columns == ["_distance", "id", "_rowid"]
    assert found.schema["_rowid"].dataType == st.LongType()
    wanted = nearest(6, [number for number in range(len(VALUES)) if number % 3 == 1])[2:]
    assert [row["id"] for row in found.orderBy("_distance").collect()] == wanted


def test_a_search_is_a_relation(spark: SparkSession, table: str) -> None:
    joined = spark.sql(
        f"SELECT s.id, o.`the text` AS name FROM vector_search('{table}', {ARRAY}, 20) s JOIN {table} o ON s.id = o.id "
        "WHERE s.p = 2 ORDER BY s._distance LIMIT 3"
    ).collect()
    wanted = [number for number in nearest(20) if number % 3 == 2][:3]
    assert [(row["id"], row["name"]) for row in joined] == [(number, f"t{number}") for number in wanted]
    assert spark.sql(f"SELECT count(*) FROM vector_search('{table}', {ARRAY}, 7)").collect()[0][0] == 7


def test_several_queries(spark: SparkSession, table: str) -> None:
    both = f"array({ARRAY}, array(0.0, 0.0, 0.0, 0.0))"
    rows = spark.sql(
        f"SELECT query_index, id FROM vector_search('{table}', {both}, 3) ORDER BY query_index, _distance"
    ).collect()
    expected = [(0, number) for number in nearest(3)] + [(1, number) for number in nearest(3, query=np.zeros(4))]
    assert [(row["query_index"], row["id"]) for row in rows] == expected


def test_an_older_version(spark: SparkSession, table: str) -> None:
    version = spark.sql(f"SELECT max(version) FROM {table}.versions").collect()[0][0]
    spark.sql(f"DELETE FROM {table} WHERE id = 40")
    try:
        assert ids(spark, f"SELECT id FROM vector_search('{table}', {ARRAY}, 1)") == nearest(2)[1:]
        older = (
            f"SELECT id FROM vector_search(table => '{table}', query_vector => {ARRAY}, k => 1, version => {version})"
        )
        assert ids(spark, older) == [40]
    finally:
        spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version}")


def test_the_plan_names_the_search(spark: SparkSession, table: str) -> None:
    plan = spark.sql(f"EXPLAIN SELECT id FROM vector_search('{table}', {ARRAY}, 2)").collect()[0][0]
    assert f"lance vector_search {table} columns=[id] index=none compared={len(VALUES)}" in plan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("table => '{table}'", "needs the argument query_vector"),
        ("table => '{table}', query_vector => array(1.0)", "the query has 1 values, the vectors of column v have 4"),
        ("table => '{table}', query_vector => {array}, kk => 3", "no argument 'kk'; did you mean 'k'?"),
        ("table => '{table}', query_vector => {array}, k => 'x'", "must be a whole number"),
        ("table => '{table}', query_vector => {array}, k => 0", "at least 1"),
        ("table => '{table}', query_vector => {array}, vector_column => 'id'", "not a vector"),
        ("table => '{table}', query_vector => {array}, vector_column => 'w'", "w"),
        ("table => '{table}', query_vector => {array}, filter => 'nope = 1'", "nope"),
        ("table => '{table}', query_vector => {array}, distance_type => 'far'", "no metric 'far'"),
        ("table => '{table}', query_vector => array(rand())", "takes constants"),
        ("'{table}', {array}, 3, 4", "takes 3 arguments without names"),
        ("query_vector => {array}", "takes the name of a table"),
        ("table => 'lance.db.none', query_vector => {array}", "cannot be found"),
        ("table => 'spark_catalog.default.t', query_vector => {array}", "no Lance catalog"),
    ],
)
def test_wrong_arguments(spark: SparkSession, table: str, arguments: str, message: str) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.sql(f"SELECT * FROM vector_search({arguments.format(table=table, array=ARRAY)})").collect()
    assert message in str(caught.value)


def test_the_index_of_pylance(spark: SparkSession) -> None:
    import lance

    spark.sql(
        "CREATE TABLE lance.db.indexed_vectors (id BIGINT, v ARRAY<FLOAT>) USING lance "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '4')"
    )
    values = np.random.default_rng(1).normal(size=(600, 4)).astype("f4")
    frame = [(number, values[number].tolist()) for number in range(600)]
    spark.createDataFrame(frame, "id BIGINT, v ARRAY<FLOAT>").writeTo("lance.db.indexed_vectors").append()
    uri = spark.sql("DESCRIBE EXTENDED lance.db.indexed_vectors").where("col_name = 'Location'").collect()[0][1]
    lance.dataset(uri).create_index("v", "IVF_FLAT", num_partitions=4)
    query = f"array({', '.join(map(str, values[9].tolist()))})"
    found = spark.sql(
        f"SELECT id FROM vector_search(table => 'lance.db.indexed_vectors', query_vector => {query}, "
        "k => 3, nprobes => 4, fast_search => true) ORDER BY _distance"
    )
    exact = lance_spark.open(uri).nearest("v", values[9], 3, use_index=False)
    assert [row["id"] for row in found.collect()] == exact["id"].to_pylist()
    probes = f"table => 'lance.db.indexed_vectors', query_vector => {query}, nprobes => 2"
    plan = spark.sql(f"EXPLAIN SELECT id FROM vector_search({probes})").collect()[0][0]
    assert "index=v_idx partitions=2 of 4 index_rows=" in plan
    assert pa.types.is_fixed_size_list(lance_spark.open(uri).schema.field("v").type)
