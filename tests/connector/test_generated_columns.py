"""GENERATED ALWAYS AS: Spark computes and checks the values of inserts, tasks check all rows; IDENTITY is refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, SparkRuntimeException
from pyspark.sql import SparkSession

import lance_spark


def table_uri(spark: SparkSession, table: str) -> str:
    location = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").first()
    assert location is not None
    return str(location.data_type)


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.generated")
    return f"lance.generated.t{zlib.crc32(request.node.name.encode())}"


@pytest.fixture
def made(spark: SparkSession, table: str) -> str:
    spark.sql(
        f"CREATE TABLE {table} (id INT, double BIGINT GENERATED ALWAYS AS (id * 2L), name STRING, "
        "tag STRING GENERATED ALWAYS AS (concat('x', upper(name))))"
    )
    spark.sql(f"INSERT INTO {table} (id, name) VALUES (1, 'a'), (2, NULL)")
    return table


def rows(spark: SparkSession, table: str) -> list[Any]:
    return [tuple(row) for row in spark.table(table).orderBy("id").collect()]


FIRST = [(1, 2, "a", "xA"), (2, 4, None, None)]


def test_inserts_compute_values(spark: SparkSession, made: str) -> None:
    assert rows(spark, made) == FIRST
    spark.sql(f"INSERT INTO {made} (id, name, double) VALUES (3, 'c', 6)")
    spark.createDataFrame([(4, "d")], "id int, name string").writeTo(made).append()
    spark.createDataFrame([("e", 5)], "name string, id int").write.mode("append").saveAsTable(made)
    spark.sql(f"INSERT INTO {made} BY NAME SELECT 6 AS id, 'f' AS name")
    assert rows(spark, made)[2:] == [(n, 2 * n, "..cdef"[n - 1], f"x{'..CDEF'[n - 1]}") for n in range(3, 7)]
    spark.sql(f"INSERT OVERWRITE {made} (id, name) VALUES (9, 'z')")
    assert rows(spark, made) == [(9, 18, "z", "xZ")]


def test_other_values_are_refused(spark: SparkSession, made: str) -> None:
    for values in ("(3, 7, 'c', 'xC')", "(3, NULL, 'c', 'xC')", "(3, 6, 'c', 'c')"):
        with pytest.raises(SparkRuntimeException, match="CHECK_CONSTRAINT_VIOLATION"):
            spark.sql(f"INSERT INTO {made} VALUES {values}")
    assert rows(spark, made) == FIRST


def test_updates_and_merges_are_checked(spark: SparkSession, made: str) -> None:
    spark.sql(f"UPDATE {made} SET name = name WHERE id = 2")
    spark.sql(f"UPDATE {made} SET id = 10, double = 20 WHERE id = 1")
    source = "(SELECT 10 AS id, 'b' AS name)"
    spark.sql(
        f"MERGE INTO {made} t USING {source} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name, tag = concat('x', upper(s.name))"
    )
    expected = [(2, 4, None, None), (10, 20, "b", "xB")]
    assert rows(spark, made) == expected
    wrong = [
        f"UPDATE {made} SET id = 11 WHERE id = 10",
        f"UPDATE {made} SET double = 0",
        f"MERGE INTO {made} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 3",
        f"MERGE INTO {made} t USING {source} s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (5, 'e')",
    ]
    for statement in wrong:
        with pytest.raises(PySparkException, match="another value in the generated column"):
            spark.sql(statement)
    with pytest.raises(AnalysisException, match="does not support MERGE with generated columns"):
        # Without UPDATE, Spark loads the table as for an insert.
        spark.sql(
            f"MERGE INTO {made} t USING {source} s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
        )
    spark.sql(f"DELETE FROM {made} WHERE id = 2")
    assert rows(spark, made) == expected[1:]


def test_writes_by_path_and_in_python_compute_values(spark: SparkSession, made: str) -> None:
    uri = table_uri(spark, made)
    spark.createDataFrame([("c", 3)], "name string, id int").write.mode("append").format("lance").save(uri)
    lance_spark.open(uri).append(pa.table({"name": ["d"], "id": pa.array([4], pa.int32())}))
    assert rows(spark, made)[2:] == [(3, 6, "c", "xC"), (4, 8, "d", "xD")]
    assert lance.dataset(uri).count_rows() == 4


def test_streams_are_refused_or_checked(spark: SparkSession, made: str, tmp_path: Path) -> None:
    spark.createDataFrame([(3, 6, "c", "xC")], spark.table(made).schema).write.parquet(str(tmp_path / "in"))

    def stream(columns: list[str], start: Callable[[Any], Any], checkpoint: str) -> None:
        source = spark.readStream.schema(spark.table(made).schema).parquet(str(tmp_path / "in")).select(columns)
        writer = source.writeStream.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        start(writer).awaitTermination()

    with pytest.raises(AnalysisException, match="streaming write with generated columns"):
        stream(["id", "name"], lambda writer: writer.toTable(made), "a")
    uri = table_uri(spark, made)
    with pytest.raises(PySparkException, match="another value in the generated column"):
        stream(["id", "name"], lambda writer: writer.format("lance").start(uri), "b")
    stream(["id", "double", "name", "tag"], lambda writer: writer.format("lance").start(uri), "c")
    assert rows(spark, made)[2:] == [(3, 6, "c", "xC")]


def test_copies_and_new_definitions(spark: SparkSession, made: str) -> None:
    spark.sql(f"CREATE TABLE {made}_like LIKE {made}")
    spark.sql(f"INSERT INTO {made}_like (id, name) VALUES (7, 'g')")
    assert rows(spark, f"{made}_like") == [(7, 14, "g", "xG")]
    # A query's columns are plain ones.
    spark.sql(f"CREATE TABLE {made}_query AS SELECT * FROM {made}")
    spark.sql(f"INSERT INTO {made}_query VALUES (3, 0, 'c', 'c')")
    spark.sql(f"REPLACE TABLE {made} (id INT, double BIGINT, half BIGINT GENERATED ALWAYS AS (id + 1))")
    spark.sql(f"INSERT INTO {made} (id, double) VALUES (1, 1)")
    assert rows(spark, made) == [(1, 1, 2)]


def test_columns_it_is_made_of_stay(spark: SparkSession, made: str) -> None:
    for statement in ("DROP COLUMN id", "RENAME COLUMN id TO other"):
        with pytest.raises(AnalysisException, match="generated column 'double'"):
            spark.sql(f"ALTER TABLE {made} {statement}")
    spark.sql(f"ALTER TABLE {made} DROP COLUMN double")
    spark.sql(f"ALTER TABLE {made} RENAME COLUMN id TO other")
    spark.sql(f"INSERT INTO {made} (other, name) VALUES (3, 'c')")
    assert spark.table(made).where("other = 3").first() == (3, "c", "xC")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id INT, x INT GENERATED ALWAYS AS (bit_count(id))", "cannot be enforced"),
        ('id INT, x STRING GENERATED ALWAYS AS (concat("a", id))', "without double quotes"),
        ("ts TIMESTAMP, x DATE GENERATED ALWAYS AS (CAST(ts AS DATE))", "use TIMESTAMP_NTZ"),
        ("id INT, x DOUBLE GENERATED ALWAYS AS (rand())", "not deterministic"),
        ("id BIGINT GENERATED ALWAYS AS IDENTITY, x INT", "does not support identity column"),
        ("id BIGINT GENERATED BY DEFAULT AS IDENTITY, x INT", "does not support identity column"),
    ],
)
def test_definitions_that_are_refused(spark: SparkSession, table: str, columns: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"CREATE TABLE {table} ({columns})")
    assert not spark.catalog.tableExists(table)


@pytest.mark.parametrize("by", ["bucket(2, id)", "tens"])
def test_partitioned_tables(spark: SparkSession, table: str, by: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} (id INT, tens INT GENERATED ALWAYS AS (id - id % 10), name STRING) PARTITIONED BY ({by})"
    )
    spark.sql(f"INSERT INTO {table} (id, name) VALUES (1, 'a'), (25, 'b'), (29, 'c')")
    with pytest.raises(SparkRuntimeException, match="CHECK_CONSTRAINT_VIOLATION"):
        spark.sql(f"INSERT INTO {table} VALUES (3, 7, 'c')")
    with pytest.raises(PySparkException, match="another value in the generated column"):
        spark.sql(f"UPDATE {table} SET id = 31 WHERE id = 25")
    spark.sql(f"UPDATE {table} SET id = 31, tens = 30 WHERE id = 25")
    spark.sql(f"DELETE FROM {table} WHERE tens = 0")
    assert rows(spark, table) == [(29, 20, "c"), (31, 30, "b")]
    lance_spark.open(table_uri(spark, table)).append(pa.table({"id": pa.array([44], pa.int32()), "name": ["d"]}))
    assert spark.table(table).where("tens = 40").collect() == [(44, 40, "d")]
