"""UPDATE: one version a statement, rows keep their identity, the other columns their values."""

from __future__ import annotations

import datetime

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import SparkSession

from lance_spark.spark.compat import SPARK
from tests.support.connector.row_level import make, properties, seen, version, words


@pytest.mark.slow
def test_some_rows_and_all(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 6), uri)
    spark.sql(f"UPDATE {table} SET word = upper(word), part = id * 10 WHERE id % 2 = 1")
    assert seen(spark, uri, "id", "word", "part") == [
        (0, "w0", 0),
        (1, "W1", 10),
        (2, "w2", None),
        (3, "W3", 30),
        (4, "w4", 1),
        (5, "W5", 50),
    ]
    assert version(uri) == 2
    counts = {"spark.numUpdatedRows": "3"} if SPARK >= (4, 2) else {}  # Spark has no such count before.
    assert properties(uri) == {"spark.operation": "UPDATE", **counts}
    spark.sql(f"UPDATE {table} SET part = NULL")
    assert {row[1] for row in seen(spark, uri, "id", "part")} == {None}
    assert version(uri) == 3
    spark.sql(f"UPDATE {table} SET part = 1 WHERE id > 100")
    spark.sql(f"UPDATE {table} SET part = 1 WHERE id IS NULL")
    assert version(uri) == 3


def test_values_of_other_columns_and_aliases(spark: SparkSession, uri: str) -> None:
    table = make(spark.range(3).selectExpr("id", "id AS a", "id + 10 AS b"), uri)
    spark.sql(f"UPDATE {table} AS t SET t.a = t.b, t.b = t.a WHERE t.id <> 1")
    assert seen(spark, uri, "id", "a", "b") == [(0, 10, 0), (1, 1, 11), (2, 12, 2)]


@pytest.mark.slow
def test_fields_of_structs(spark: SparkSession, uri: str) -> None:
    frame = spark.sql(
        """SELECT id, if(id = 1, struct(nullif(1, id + 1) AS n, if(id = 1, inner, NULL) AS inner), NULL) AS data
           FROM (SELECT id, struct(nullif('x', '') AS s, nullif(1.5D, 0) AS d) AS inner FROM VALUES (1), (2) t(id))"""
    )
    table = make(frame, uri)
    spark.sql(f"UPDATE {table} SET data.inner.s = 'y', data.n = data.n + 1 WHERE id = 1")
    assert seen(spark, uri, "id", "data")[0] == (1, {"n": 2, "inner": {"s": "y", "d": 1.5}})
    spark.sql(f"UPDATE {table} SET data = named_struct('n', 7, 'inner', NULL) WHERE id = 2")
    assert seen(spark, uri, "id", "data")[1] == (2, {"n": 7, "inner": None})
    with pytest.raises(AnalysisException):
        spark.sql(f"UPDATE {table} SET data.missing = 1")
    with pytest.raises(AnalysisException):
        spark.sql(f"UPDATE {table} SET data.n = 1, data.n = 2")
    with pytest.raises(AnalysisException):
        spark.sql(f"UPDATE {table} SET id = 'no number'")
    assert version(uri) == 3


@pytest.mark.slow
def test_subqueries_and_itself(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 6), uri)
    spark.sql(f"UPDATE {table} SET word = 'max' WHERE id = (SELECT max(id) FROM {table})")
    spark.createDataFrame([(1,), (None,)], "k BIGINT").createOrReplaceTempView("some_keys")
    spark.sql(f"UPDATE {table} SET word = 'in' WHERE id IN (SELECT k FROM some_keys)")
    # NOT IN of something with a null is never true.
    spark.sql(f"UPDATE {table} SET word = 'out' WHERE id NOT IN (SELECT k FROM some_keys)")
    spark.sql(f"UPDATE {table} AS t SET word = 'no' WHERE NOT EXISTS (SELECT 1 FROM {table} s WHERE s.id = t.id + 1)")
    assert [row[1] for row in seen(spark, uri, "id", "word")] == ["w0", "in", "w2", "w3", "w4", "no"]
    assert version(uri) == 4


@pytest.mark.slow
def test_rows_keep_their_ids(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 6), uri, enable_stable_row_ids="true")
    before = dict(spark.sql(f"SELECT id, _rowid FROM {table}").collect())
    spark.sql(f"UPDATE {table} SET word = 'x' WHERE id IN (1, 4)")
    assert dict(spark.sql(f"SELECT id, _rowid FROM {table}").collect()) == before
    read = spark.sql(f"SELECT id, _row_created_at_version AS c, _row_last_updated_at_version AS u FROM {table}")
    assert {tuple(row) for row in read.collect()} == {
        (0, 1, 1),
        (1, 1, 2),
        (2, 1, 1),
        (3, 1, 1),
        (4, 1, 2),
        (5, 1, 1),
    }
    theirs = lance.dataset(uri).to_table(columns=["id"], with_row_id=True).to_pydict()
    assert dict(zip(theirs["id"], theirs["_rowid"], strict=True)) == before
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    named = f"_rowid IN ({before[1]}, {before[3]}, {before[5]}, 99)"
    assert {row.id for row in spark.sql(f"SELECT id FROM {table} WHERE {named}").collect()} == {1, 5}
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE {named} AND word = 'x'").first()[0] == 1


@pytest.mark.slow
def test_required_columns(spark: SparkSession, uri: str) -> None:
    lance.write_dataset(pa.table({"id": [1, 2]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])), uri)
    with pytest.raises(Exception, match="NULL"):
        spark.sql(f"UPDATE lance.`{uri}` SET id = nullif(id, 2)")
    assert version(uri) == 1
    spark.sql(f"UPDATE lance.`{uri}` SET id = id + 1")
    assert seen(spark, uri, "id") == [(2,), (3,)]


@pytest.mark.slow
def test_types_that_spark_does_not_have(spark: SparkSession, uri: str) -> None:
    """Values that Spark sees rounded stay what they are, unless the statement gives them others."""
    nanos = pa.array([1, 1001, None], pa.timestamp("ns"))
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.uint64()),
            "at": nanos,
            "small": pa.array([1.5, None, 0.25], pa.float16()),
            "many": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int16(), 2)),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "deep": pa.array([{"t": 5}, {"t": 1005}, None], pa.struct([("t", pa.duration("ns"))])),
        }
    )
    lance.write_dataset(table, uri)
    spark.sql(f"UPDATE lance.`{uri}` SET kind = 'c' WHERE id <> 3")
    read = lance.dataset(uri).to_table()
    assert read.schema == table.schema
    ids = read["id"].to_pylist()
    assert read.drop(["kind"]).take([ids.index(key) for key in (1, 2, 3)]) == table.drop(["kind"])
    spark.sql(f"UPDATE lance.`{uri}` SET at = TIMESTAMP_NTZ '1970-01-01 00:00:00' WHERE id = 2")
    spark.sql(f"UPDATE lance.`{uri}` SET at = TIMESTAMP_NTZ '1970-01-01 00:00:00.000001' WHERE id = 1")
    read = lance.dataset(uri).to_table()
    found = dict(zip(read["id"].to_pylist(), read["at"].cast(pa.int64()).to_pylist(), strict=True))
    assert found == {1: 1000, 2: 0, 3: None}


@pytest.mark.slow
def test_views_cannot_be_updated(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 3), uri)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_words AS SELECT * FROM {table}")
    with pytest.raises(UnsupportedOperationException, match="UPDATE"):
        spark.sql("UPDATE of_words SET word = 'x'")
    assert version(uri) == 1


def test_dates_survive(spark: SparkSession, uri: str) -> None:
    frame = spark.sql("SELECT 1 AS id, DATE '1969-12-31' AS d, TIMESTAMP '1969-12-31 23:59:59.999999' AS t")
    table = make(frame, uri)
    spark.sql(f"UPDATE {table} SET id = 2")
    zone = datetime.timezone.utc
    read = lance.dataset(uri).to_table().to_pylist()
    assert read == [
        {"id": 2, "d": datetime.date(1969, 12, 31), "t": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, zone)}
    ]
