"""CHAR and VARCHAR: Spark checks lengths and pads as it does for its own tables, in all statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import lance_spark
from tests.support.connector.streams import batches

COLUMNS = (
    "k INT, c CHAR(5), v VARCHAR(3), s STRUCT<x: VARCHAR(2), y: INT>, a ARRAY<CHAR(2)>, m MAP<VARCHAR(2), VARCHAR(3)>"
)
FIRST = "1, 'ab', 'abc', named_struct('x', 'xy', 'y', 1), array('a'), map('k', 'v')"
TYPES = ["int", "char(5)", "varchar(3)", "struct<x:varchar(2),y:int>", "array<char(2)>", "map<varchar(2),varchar(3)>"]

TOO_LONG = [
    "INSERT INTO {t} (k, c) VALUES (2, 'abcdef')",
    "INSERT INTO {t} (k, v) VALUES (2, 'abcd')",
    "INSERT INTO {t} (k, s) VALUES (2, named_struct('x', 'abc', 'y', 1))",
    "INSERT INTO {t} (k, a) VALUES (2, array('ab', 'abc'))",
    "INSERT INTO {t} (k, m) VALUES (2, map('abc', 'v'))",
    "INSERT INTO {t} (k, m) VALUES (2, map('k', 'abcd'))",
    "INSERT OVERWRITE {t} (k, v) VALUES (2, 'abcd')",
    "UPDATE {t} SET v = 'abcd' WHERE k = 1",
    "UPDATE {t} SET s.x = 'abc' WHERE k = 1",
    "MERGE INTO {t} t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'abcd'",
    "MERGE INTO {t} t USING (SELECT 2 AS k) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (2, 'abcd')",
]


def types(spark: SparkSession, table: str) -> list[str]:
    return [row.data_type for row in spark.sql(f"DESCRIBE {table}").collect() if row.data_type][: len(TYPES)]


def rows(spark: SparkSession, table: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in spark.table(table).orderBy("k").collect()]


def location(spark: SparkSession, table: str) -> str:
    shown = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'")
    return str(shown.collect()[0].data_type)


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    name = f"lance.texts.{request.param}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.texts")
    by = "PARTITIONED BY (k)" if request.param == "partitioned" else ""
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING lance {by}")
    spark.sql(f"INSERT INTO {name} VALUES ({FIRST})")
    return name


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
def test_declared_types_are_kept(spark: SparkSession, table: str) -> None:
    assert types(spark, table) == TYPES
    statement = spark.sql(f"SHOW CREATE TABLE {table}").collect()[0][0]
    assert "c CHAR(5)" in statement
    assert "s STRUCT<x: VARCHAR(2)" in statement
    spark.sql(f"CREATE TABLE {table}_copy USING lance AS SELECT * FROM {table}")
    assert types(spark, f"{table}_copy") == TYPES
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql(f"INSERT INTO {table}_copy (k, v) VALUES (2, 'abcd')")
    spark.sql(f"CREATE TABLE {table}_like LIKE {table}")
    assert types(spark, f"{table}_like") == TYPES


@pytest.mark.slow
def test_values_are_padded_as_in_parquet(spark: SparkSession, table: str) -> None:
    parquet = f"spark_catalog.default.{table.replace('.', '_')}"
    spark.sql(f"CREATE TABLE {parquet} ({COLUMNS}) USING parquet")
    spark.sql(f"INSERT INTO {parquet} VALUES ({FIRST})")
    assert rows(spark, table) == rows(spark, parquet)
    for condition in (
        "c = 'ab'",
        "c = 'ab     '",
        "c IN ('ab', 'x')",
        "c LIKE 'ab'",
        "a[0] = 'a'",
        "v = 'abc '",
        "length(c) = 5",
    ):
        query = "SELECT count(*) FROM {} WHERE " + condition
        assert spark.sql(query.format(table)).collect() == spark.sql(query.format(parquet)).collect(), condition
    spark.sql(f"DROP TABLE {parquet}")


@pytest.mark.parametrize("statement", TOO_LONG)
def test_value_that_is_too_long_is_refused(spark: SparkSession, table: str, statement: str) -> None:
    before = rows(spark, table)
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql(statement.format(t=table))
    assert rows(spark, table) == before


@pytest.mark.slow
def test_dataframe_and_stream_with_value_that_is_too_long(spark: SparkSession, table: str, tmp_path: Path) -> None:
    before = rows(spark, table)
    long = spark.createDataFrame([(5, "abcd")], "k INT, v STRING")
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        long.writeTo(table).append()
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        long.write.format("lance").mode("append").save(location(spark, table))
    spark.createDataFrame([(5, "abcd")], "k INT, v STRING").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("k INT, v STRING").parquet(str(tmp_path / "in"))
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        writer.toTable(table).awaitTermination()
    assert rows(spark, table) == before


@pytest.mark.since("4.1", "SELECT ... FROM STREAM")
@pytest.mark.slow
def test_streams_read_strings(spark: SparkSession, table: str, tmp_path: Path) -> None:
    row = {"k": 1, "c": "ab   ", "v": "abc", "s": {"x": "xy", "y": 1}, "a": ["a "], "m": {"k": "v"}}
    streams = [
        spark.readStream.table(table),
        spark.readStream.format("lance").load(location(spark, table)),
        spark.sql(f"SELECT * FROM STREAM {table} WHERE c = 'ab' AND length(c) = 5 AND v = 'abc'"),
    ]
    for number, stream in enumerate(streams):
        found = batches(stream.select("k", "c", "v", "s", "a", "m"), tmp_path / str(number))
        assert [one.asDict(recursive=True) for one in found] == [row]


def test_trailing_spaces_beyond_the_length_are_cut(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} (k, v, c) VALUES (7, 'a    ', 'b')")
    assert [(row["v"], row["c"]) for row in rows(spark, table) if row["k"] == 7] == [("a  ", "b    ")]
    spark.sql(f"DELETE FROM {table} WHERE c = 'b'")
    assert 7 not in [row["k"] for row in rows(spark, table)]


def test_merge_that_only_inserts_pads_and_checks_lengths(spark: SparkSession, table: str) -> None:
    merge = f"MERGE INTO {table} t USING (SELECT {{}} AS k, {{}} AS c, 'x' AS v) s ON t.k = s.k WHEN NOT MATCHED THEN "
    spark.sql(merge.format(8, "'m'") + "INSERT (k, c, v) VALUES (s.k, s.c, s.v)")
    spark.sql(merge.format(8, "'n'") + "INSERT (k, c, v) VALUES (s.k, s.c, s.v)")
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql(merge.format(9, "'too long'") + "INSERT (k, c) VALUES (s.k, s.c)")
    assert [(row["c"], row["v"]) for row in rows(spark, table) if row["k"] in (8, 9)] == [("m    ", "x")]
    spark.sql(f"DELETE FROM {table} AS t WHERE EXISTS (SELECT 1 FROM {table} AS o WHERE o.c = t.c AND o.c = 'm')")
    assert 8 not in [row["k"] for row in rows(spark, table)]


@pytest.mark.slow
def test_alter_column(spark: SparkSession) -> None:
    for by in ("", "PARTITIONED BY (k)"):
        spark.sql(
            f"CREATE OR REPLACE TABLE lance.texts.altered (k INT, v VARCHAR(3), c CHAR(2), s STRING) USING lance {by}"
        )
        spark.sql("ALTER TABLE lance.texts.altered ALTER COLUMN v TYPE VARCHAR(5)")
        spark.sql("ALTER TABLE lance.texts.altered ALTER COLUMN c TYPE VARCHAR(2)")
        spark.sql("ALTER TABLE lance.texts.altered ADD COLUMN w VARCHAR(1)")
        assert types(spark, "lance.texts.altered")[:5] == ["int", "varchar(5)", "varchar(2)", "string", "varchar(1)"]
        spark.sql("INSERT INTO lance.texts.altered (k, v) VALUES (1, 'abcde')")
        for column, kind in (("v", "VARCHAR(4)"), ("s", "VARCHAR(9)"), ("v", "CHAR(5)")):
            with pytest.raises(AnalysisException):
                spark.sql(f"ALTER TABLE lance.texts.altered ALTER COLUMN {column} TYPE {kind}")
        spark.sql("ALTER TABLE lance.texts.altered ALTER COLUMN v TYPE STRING")
        spark.sql("INSERT INTO lance.texts.altered (k, v) VALUES (2, 'abcdefg')")
        spark.sql(f"CREATE OR REPLACE TABLE lance.texts.altered (k INT, v VARCHAR(2), c STRING) USING lance {by}")
        assert types(spark, "lance.texts.altered")[:3] == ["int", "varchar(2)", "string"]
        spark.sql("DROP TABLE lance.texts.altered")


@pytest.mark.slow
def test_files_hold_strings_for_other_readers_and_writers(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE lance.texts.shared (k INT, c CHAR(3)) USING lance")
    spark.sql("INSERT INTO lance.texts.shared VALUES (1, 'a')")
    path = location(spark, "lance.texts.shared")
    assert lance.dataset(path).to_table().to_pylist() == [{"k": 1, "c": "a  "}]
    made = lance_spark.open(path)
    made.append(made.to_table().slice(0, 1).set_column(1, made.schema.field("c"), [["b"]]))
    # A value that was not padded is padded when it is read, as in Spark's own tables.
    assert [row["c"] for row in rows(spark, "lance.texts.shared")] == ["a  ", "b  "]
    assert spark.table("lance.texts.shared").where("c = 'b'").count() == 1
    # Spark pads in scans only.
    streamed = batches(spark.readStream.table("lance.texts.shared"), tmp_path / "checkpoint")
    assert sorted(row.c for row in streamed) == ["a  ", "b"]
