"""GENERATED ALWAYS AS: Spark computes values of inserts, the connector those of UPDATE and MERGE; tasks check rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
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


# Spark checks rows from 4.3 on, tasks check all.
REFUSED = "CHECK_CONSTRAINT_VIOLATION|another value in the generated column"
FIRST = [(1, 2, "a", "xA"), (2, 4, None, None)]


@pytest.mark.slow
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
        with pytest.raises(PySparkException, match=REFUSED):
            spark.sql(f"INSERT INTO {made} VALUES {values}")
    assert rows(spark, made) == FIRST


@pytest.mark.slow
def test_updates_compute_values(spark: SparkSession, made: str) -> None:
    spark.sql(f"UPDATE {made} SET name = name WHERE id = 2")
    assert rows(spark, made) == FIRST
    spark.sql(f"UPDATE {made} SET id = id + 10, name = upper(name)")
    assert rows(spark, made) == [(11, 22, "A", "xA"), (12, 24, None, None)]
    spark.sql(f"UPDATE {made} SET id = 1, double = 2, name = NULL WHERE id = 11")
    assert rows(spark, made) == [(1, 2, None, None), (12, 24, None, None)]
    spark.sql(f"UPDATE {made} t SET name = (SELECT max(name) FROM VALUES ('p'), ('q') AS v (name)) WHERE double = 24")
    assert rows(spark, made) == [(1, 2, None, None), (12, 24, "q", "xQ")]


@pytest.mark.slow
def test_merges_compute_values(spark: SparkSession, made: str) -> None:
    source = "(SELECT * FROM VALUES (1, 'p'), (3, 'q'), (4, NULL) AS v (id, name))"
    spark.sql(
        f"MERGE INTO {made} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED AND s.id = 3 THEN INSERT (id, name) VALUES (s.id, s.name) "
        "WHEN NOT MATCHED THEN INSERT (name, tag, id) VALUES ('r', 'xR', s.id + 1) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = 20"
    )
    expected = [(1, 2, "p", "xP"), (3, 6, "q", "xQ"), (5, 10, "r", "xR"), (20, 40, None, None)]
    assert rows(spark, made) == expected
    spark.sql(
        f"MERGE INTO {made} t USING {source} s ON t.id = s.id WHEN MATCHED AND s.id = 1 THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    )
    expected = [expected[1], (4, 8, None, None), *expected[2:]]
    assert rows(spark, made) == expected


@pytest.mark.slow
@pytest.mark.parametrize("actions", [1, 2])
def test_merges_that_only_insert_compute_values(spark: SparkSession, made: str, actions: int) -> None:
    source = "(SELECT * FROM VALUES (1, 'p'), (3, 'q'), (4, NULL) AS v (id, name))"
    first = "WHEN NOT MATCHED AND s.id = 3 THEN INSERT (name, id) VALUES (s.name, s.id) " if actions == 2 else ""
    merge = f"MERGE INTO {made} t USING {source} s ON t.id = s.id {first}WHEN NOT MATCHED THEN INSERT "
    with pytest.raises(PySparkException, match="another value in the generated column"):
        spark.sql(merge + "(id, name, double) VALUES (s.id, s.name, 1)")
    assert rows(spark, made) == FIRST
    spark.sql("WITH source AS (SELECT 1) " + merge + "(id, name) VALUES (s.id, s.name)")
    assert rows(spark, made) == [*FIRST, (3, 6, "q", "xQ"), (4, 8, None, None)]


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (double)"])
def test_schema_evolution_computes_values(spark: SparkSession, table: str, by: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id INT, name STRING, double BIGINT GENERATED ALWAYS AS (id * 2L)) {by}")
    spark.sql(f"INSERT INTO {table} (id, name) VALUES (1, 'a')")
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING "
        "(SELECT * FROM VALUES ('a', 5, 'x'), ('b', 6, 'y') AS v (name, id, more)) s ON t.name = s.name "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark, table) == [(5, "a", 10, "x"), (6, "b", 12, "y")]
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING (SELECT 8 AS id, 'h' AS name, 'w' AS more, 1 AS one) s "
        "ON t.name = s.name WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark, table)[2:] == [(8, "h", 16, "w", 1)]


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (double)"])
def test_inserts_with_schema_evolution_compute_values(spark: SparkSession, table: str, by: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id INT, name STRING, double BIGINT GENERATED ALWAYS AS (id * 2L)) {by}")
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT 7 AS id, 'c' AS name, 3 AS two")
    new = [(7, "c", 14, 3)]
    assert rows(spark, table) == new
    with pytest.raises(PySparkException, match="generated column"):
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT 9 AS id, 7L AS double, 3 AS three")
    assert rows(spark, table) == new


@pytest.mark.slow
def test_values_from_common_table_expressions_and_functions(spark: SparkSession, made: str) -> None:
    source = "WITH s AS (SELECT 2 AS id, 'p' AS name) "
    spark.sql(
        f"{source}MERGE INTO {made} t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    )
    assert rows(spark, made) == [FIRST[0], (2, 4, "p", "xP")]
    # Spark gives both copies of such a value the same seed.
    spark.sql(f"UPDATE {made} SET name = uuid(), id = CAST(rand() * 1000000 AS INT)")
    changed = rows(spark, made)
    assert len({name for _, _, name, _ in changed}) == 2
    assert all(row == (row[0], row[0] * 2, row[2], f"x{row[2].upper()}") for row in changed)


@pytest.mark.slow
def test_updates_and_merges_are_checked(spark: SparkSession, made: str) -> None:
    source = "(SELECT 1 AS id, 'b' AS name)"
    wrong = [
        f"UPDATE {made} SET double = 0",
        f"UPDATE {made} SET double = NULL",
        f"UPDATE {made} SET id = 11, double = double + 1",
        f"MERGE INTO {made} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 3, double = 4",
        f"MERGE INTO {made} t USING {source} s ON t.id = s.id + 9 WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name, tag) VALUES (5, 'e', 'e')",
    ]
    for statement in wrong:
        with pytest.raises(PySparkException, match="another value in the generated column"):
            spark.sql(statement)
    assert rows(spark, made) == FIRST
    spark.sql(f"DELETE FROM {made} WHERE id = 2")
    assert rows(spark, made) == FIRST[:1]


@pytest.mark.since("4.1", "CHECK constraints in statements")
@pytest.mark.slow
def test_values_of_columns_without_nulls_and_with_constraints(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} (id INT, total INT NOT NULL GENERATED ALWAYS AS (id * 100), "
        "CONSTRAINT small CHECK (total < 1000))"
    )
    spark.sql(f"INSERT INTO {table} (id) VALUES (1), (2)")
    for value in ("NULL", "10", "100000000"):
        with pytest.raises(PySparkException):
            spark.sql(f"INSERT INTO {table} (id) VALUES ({value})")
    with pytest.raises(PySparkException):
        spark.sql(f"INSERT INTO {table} VALUES (4, NULL)")
    spark.sql(f"UPDATE {table} SET id = 3 WHERE id = 2")
    for value in ("NULL", "10", "100000000"):  # No value, one that the constraint forbids, one that INT cannot hold.
        with pytest.raises(PySparkException):
            spark.sql(f"UPDATE {table} SET id = {value} WHERE id = 3")
    assert rows(spark, table) == [(1, 100), (3, 300)]


@pytest.mark.slow
def test_show_create_table_has_expressions(spark: SparkSession, made: str) -> None:
    spark.sql(f"ALTER TABLE {made} ALTER COLUMN double COMMENT 'twice'")
    row = spark.sql(f"SHOW CREATE TABLE {made}").first()
    assert row is not None
    text = str(row[0])
    assert "  double BIGINT COMMENT 'twice' GENERATED ALWAYS AS (id * 2L),\n" in text
    again = text.replace(made, f"{made}_again").split("\nLOCATION")[0]
    spark.sql(again)
    spark.sql(f"INSERT INTO {made}_again (id, name) VALUES (7, 'g')")
    assert rows(spark, f"{made}_again") == [(7, 14, "g", "xG")]


@pytest.mark.slow
def test_writes_by_path_and_in_python_compute_values(spark: SparkSession, made: str) -> None:
    uri = table_uri(spark, made)
    spark.createDataFrame([("c", 3)], "name string, id int").write.mode("append").format("lance").save(uri)
    lance_spark.open(uri).append(pa.table({"name": ["d"], "id": pa.array([4], pa.int32())}))
    assert rows(spark, made)[2:] == [(3, 6, "c", "xC"), (4, 8, "d", "xD")]
    assert lance.dataset(uri).count_rows() == 4


@pytest.mark.slow
def test_streams_are_computed_and_checked(spark: SparkSession, made: str, tmp_path: Path) -> None:
    spark.createDataFrame([(3, 6, "c", "xC")], spark.table(made).schema).write.parquet(str(tmp_path / "in"))
    checkpoints = iter("abcdefgh")

    def stream(columns: list[str], start: Callable[[Any], Any]) -> None:
        source = spark.readStream.schema(spark.table(made).schema).parquet(str(tmp_path / "in")).selectExpr(*columns)
        checkpoint = str(tmp_path / next(checkpoints))
        start(source.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)).awaitTermination()

    uri = table_uri(spark, made)
    stream(["id", "name"], lambda writer: writer.toTable(made))
    stream(["id + 1 AS id", "name", "tag"], lambda writer: writer.format("lance").start(uri))
    stream(["id", "double", "name", "tag"], lambda writer: writer.toTable(made))
    assert rows(spark, made)[2:] == [(3, 6, "c", "xC"), (3, 6, "c", "xC"), (4, 8, "c", "xC")]
    stream(["CAST(9 AS INT) AS id", "'k' AS name"], lambda writer: writer.option("key", "id").toTable(made))
    stream(["CAST(9 AS INT) AS id", "'l' AS name"], lambda writer: writer.option("key", "id").toTable(made))
    assert rows(spark, made)[5:] == [(9, 18, "l", "xL")]
    for wrong in ("0L AS double", "CAST(NULL AS BIGINT) AS DOUBLE"):
        with pytest.raises(PySparkException, match="another value in the generated column"):
            stream(["id", "name", wrong], lambda writer: writer.toTable(made))
    assert len(rows(spark, made)) == 6


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
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
        ("id BIGINT GENERATED ALWAYS AS IDENTITY, x BIGINT GENERATED ALWAYS AS (id + 1)", "made of an identity column"),
    ],
)
def test_definitions_that_are_refused(spark: SparkSession, table: str, columns: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"CREATE TABLE {table} ({columns})")
    assert not spark.catalog.tableExists(table)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["bucket(2, id)", "tens"])
def test_partitioned_tables(spark: SparkSession, table: str, by: str, tmp_path: Path) -> None:
    spark.sql(
        f"CREATE TABLE {table} (id INT, tens INT GENERATED ALWAYS AS (id - id % 10), name STRING) PARTITIONED BY ({by})"
    )
    spark.sql(f"INSERT INTO {table} (id, name) VALUES (1, 'a'), (25, 'b'), (29, 'c')")
    with pytest.raises(PySparkException, match=REFUSED):
        spark.sql(f"INSERT INTO {table} VALUES (3, 7, 'c')")
    with pytest.raises(PySparkException, match="another value in the generated column"):
        spark.sql(f"UPDATE {table} SET id = 31, tens = 20 WHERE id = 25")
    spark.sql(f"UPDATE {table} SET id = 31 WHERE id = 25")
    spark.sql(f"DELETE FROM {table} WHERE tens = 0")
    assert rows(spark, table) == [(29, 20, "c"), (31, 30, "b")]
    lance_spark.open(table_uri(spark, table)).append(pa.table({"id": pa.array([44], pa.int32()), "name": ["d"]}))
    assert spark.table(table).where("tens = 40").collect() == [(44, 40, "d")]
    spark.createDataFrame([(57, "e")], "id int, name string").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id int, name string").parquet(str(tmp_path / "in")).writeStream
    stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).toTable(
        table
    ).awaitTermination()
    assert spark.table(table).where("tens = 50").collect() == [(57, 50, "e")]
