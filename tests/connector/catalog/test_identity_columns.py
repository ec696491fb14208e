"""IDENTITY columns: tasks give new rows values that no other row has, in tables of both kinds."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

COLUMNS = "id BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), g STRING, v INT"


@pytest.fixture(params=["", "PARTITIONED BY (g)"], ids=["plain", "partitioned"])
def by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.identity")
    return f"lance.identity.t{zlib.crc32(request.node.name.encode())}"


@pytest.fixture
def made(spark: SparkSession, table: str, by: str) -> str:
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) {by}")
    spark.sql(f"INSERT INTO {table} (g, v) VALUES ('a', 1), ('b', 2)")
    return table


def rows(spark: SparkSession, table: str) -> list[Any]:
    return [tuple(row) for row in spark.table(table).orderBy("v").collect()]


FIRST = [(10, "a", 1), (15, "b", 2)]


@pytest.mark.slow
def test_inserts(spark: SparkSession, made: str) -> None:
    assert rows(spark, made) == FIRST
    spark.sql(f"INSERT INTO {made} VALUES (DEFAULT, 'c', 3)")
    spark.sql(f"INSERT INTO {made} BY NAME SELECT 4 AS v, 'd' AS g")
    spark.createDataFrame([("e", 5)], "g string, v int").coalesce(1).writeTo(made).append()
    spark.createDataFrame([(6, "f")], "v int, g string").coalesce(1).write.mode("append").saveAsTable(made)
    assert rows(spark, made)[2:] == [(20, "c", 3), (25, "d", 4), (30, "e", 5), (35, "f", 6)]
    spark.sql(f"INSERT OVERWRITE {made} (g, v) VALUES ('z', 9)")
    assert rows(spark, made)[-1] == (40, "z", 9)


@pytest.mark.slow
def test_tasks_take_different_values(spark: SparkSession, made: str) -> None:
    few = "SELECT concat('p', id % 3) AS g, CAST(100 + id AS INT) AS v FROM range(0, 1000, 1, 7) WHERE id % 143 > 9"
    for _ in range(2):
        spark.sql(f"INSERT INTO {made} (g, v) {few}")
    found = [row[0] for row in rows(spark, made)]
    assert len(set(found)) == len(found) == 2 + 2 * spark.sql(few).count()
    assert all(value >= 10 and value % 5 == 0 for value in found)


@pytest.mark.slow
def test_values_that_are_given_are_refused(spark: SparkSession, made: str) -> None:
    source = "(SELECT 1 AS v, 'a' AS g, 4L AS id)"
    for statement, message in (
        (f"INSERT INTO {made} VALUES (7, 'c', 5)", "a new row has a value in the identity column 'id'"),
        (f"INSERT INTO {made} SELECT * FROM {made}", "a new row has a value in the identity column 'id'"),
        (f"UPDATE {made} SET id = 1 WHERE v = 1", "can be neither set nor changed"),
        (f"MERGE INTO {made} t USING {source} s ON t.v = s.v WHEN MATCHED THEN UPDATE SET *", "can be neither"),
        (f"MERGE INTO {made} t USING {source} s ON t.v = -s.v WHEN NOT MATCHED THEN INSERT *", "can be neither"),
        (
            f"MERGE INTO {made} t USING {source} s ON t.v = s.v WHEN MATCHED AND s.id = 3 THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, g, v) VALUES (s.id, s.g, s.v)",
            "can be neither",
        ),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.sql(statement)
    assert rows(spark, made) == FIRST


@pytest.mark.slow
def test_update_and_merge(spark: SparkSession, made: str) -> None:
    spark.sql(f"UPDATE {made} SET v = 3, g = 'z' WHERE v = 1")
    source = "(SELECT explode(array(2, 7, 8)) AS v)"
    spark.sql(
        f"MERGE INTO {made} t USING {source} s ON t.v = s.v WHEN MATCHED THEN UPDATE SET g = 'm' "
        "WHEN NOT MATCHED THEN INSERT (g, v) VALUES ('n', s.v)"
    )
    spark.sql(f"MERGE INTO {made} t USING (SELECT 9 AS v) s ON t.v = s.v WHEN NOT MATCHED THEN INSERT (v) VALUES (s.v)")
    found = rows(spark, made)
    assert [row[1:] for row in found] == [("m", 2), ("z", 3), ("n", 7), ("n", 8), (None, 9)]
    assert [row[0] for row in found[:2]] == [15, 10]
    assert len({row[0] for row in found}) == 5
    assert min(row[0] for row in found[2:]) >= 20


@pytest.mark.slow
def test_statements_at_the_same_time(spark: SparkSession, made: str) -> None:
    """Each conflicts with the others, and runs again with other values."""

    def insert(number: int) -> None:
        spark.sql(f"INSERT INTO {made} (g, v) VALUES ('c', {number}), ('d', {number})")

    threads = [threading.Thread(target=insert, args=(10 + n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = rows(spark, made)
    assert len(found) == 2 + 2 * len(threads)
    assert len({row[0] for row in found}) == len(found)


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
def test_definition(spark: SparkSession, made: str, table: str) -> None:
    text = "id BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5)"
    (shown,) = spark.sql(f"SHOW CREATE TABLE {made}").first() or ()
    assert text in shown
    assert not any("identity" in row.key for row in spark.sql(f"SHOW TBLPROPERTIES {made}").collect())
    spark.sql(f"CREATE TABLE {table}like LIKE {made}")
    spark.sql(f"INSERT INTO {table}like (v) VALUES (1)")
    assert rows(spark, f"{table}like") == [(10, None, 1)]
    spark.sql(f"CREATE TABLE {table}copy AS SELECT * FROM {made}")
    assert "IDENTITY" not in (spark.sql(f"SHOW CREATE TABLE {table}copy").first() or ("IDENTITY",))[0]
    spark.sql(f"INSERT INTO {table}copy VALUES (10, 'x', 3)")


def test_by_default(spark: SparkSession, table: str, by: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id INT GENERATED BY DEFAULT AS IDENTITY, g STRING, v INT) {by}")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'a', 1), (DEFAULT, 'b', 2)")
    assert [row[0] for row in rows(spark, table)] in ([3, 1], [3, 2])  # The second row may be another task's.
    spark.sql(f"UPDATE {table} SET id = 50 WHERE v = 1")
    spark.sql(f"CALL lance.system.sync_identity(table => '{table}')")
    spark.sql(f"INSERT INTO {table} (g, v) VALUES ('c', 3)")
    assert [row[0] for row in rows(spark, table)][::2] == [50, 51]


def test_not_null(spark: SparkSession, table: str, by: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id INT NOT NULL GENERATED BY DEFAULT AS IDENTITY, g STRING, v INT) {by}")
    spark.sql(f"INSERT INTO {table} (v) VALUES (1)")
    with pytest.raises(PySparkException):
        spark.sql(f"UPDATE {table} SET id = NULL WHERE v = 1")
    assert rows(spark, table) == [(1, None, 1)]


@pytest.mark.slow
def test_changed_columns(spark: SparkSession, made: str) -> None:
    spark.sql(f"ALTER TABLE {made} RENAME COLUMN id TO number")
    spark.sql(f"ALTER TABLE {made} ADD COLUMN w INT")
    spark.sql(f"INSERT INTO {made} (g, v) VALUES ('c', 3)")
    assert [row[0] for row in rows(spark, made)] == [10, 15, 20]
    with pytest.raises(AnalysisException):
        spark.sql(f"ALTER TABLE {made} ALTER COLUMN number TYPE DOUBLE")
    spark.sql(f"ALTER TABLE {made} DROP COLUMN number")
    spark.sql(f"INSERT INTO {made} (g, v) VALUES ('d', 4)")
    assert len(rows(spark, made)) == 4


def test_replaced_table(spark: SparkSession, made: str, by: str) -> None:
    spark.sql(f"CREATE OR REPLACE TABLE {made} ({COLUMNS}) {by}")
    spark.sql(f"INSERT INTO {made} (g, v) VALUES ('a', 1)")
    assert rows(spark, made) == [(10, "a", 1)]


@pytest.mark.slow
def test_streams(spark: SparkSession, made: str, tmp_path: Path) -> None:
    source = str(tmp_path / "source")
    spark.range(3).selectExpr("CAST(10 + id AS INT) AS v", "'s' AS g").coalesce(1).write.json(source)
    for name in ("first", "again"):
        stream = spark.readStream.schema("v INT, g STRING").json(source)
        options = {"checkpointLocation": str(tmp_path / name)}
        stream.selectExpr("CAST(NULL AS BIGINT) AS id", "g", "v").writeStream.options(**options).trigger(
            availableNow=True
        ).toTable(made).awaitTermination()
    found = rows(spark, made)
    assert [row[1:] for row in found] == [row[1:] for row in FIRST] + [("s", n) for n in (10, 10, 11, 11, 12, 12)]
    assert len({row[0] for row in found}) == len(found)
    upsert = stream.writeStream.option("key", "v").option("checkpointLocation", str(tmp_path / "upsert"))
    with pytest.raises(PySparkException, match="has an identity column"):
        upsert.trigger(availableNow=True).toTable(made).awaitTermination()


@pytest.mark.slow
def test_failed_tasks_leave_no_values_twice(spark: SparkSession, made: str) -> None:
    with pytest.raises(PySparkException):
        spark.sql(f"INSERT INTO {made} (g, v) SELECT 'x', CAST(raise_error('no') AS INT) FROM range(0, 4, 1, 2)")
    spark.sql(f"INSERT INTO {made} (g, v) VALUES ('c', 3)")
    assert rows(spark, made) == [*FIRST, (20, "c", 3)]


@pytest.mark.slow
def test_writes_by_path(spark: SparkSession, table: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) LOCATION '{path}'")
    new = spark.createDataFrame([("a", 1)], "g string, v int").coalesce(1)
    new.write.format("lance").mode("append").save(path)
    new.write.format("lance").mode("append").save(path)
    assert [row[0] for row in rows(spark, table)] == [10, 15]
    assert lance.dataset(path).to_table()["id"].to_pylist() == [10, 15]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id STRING GENERATED ALWAYS AS IDENTITY, x INT", "IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE"),
        ("id BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0), x INT", "IDENTITY_COLUMNS_ILLEGAL_STEP"),
        ("id BIGINT GENERATED ALWAYS AS IDENTITY, x INT) PARTITIONED BY (bucket(4, id)", "is an identity column"),
    ],
)
def test_definitions_that_are_refused(spark: SparkSession, table: str, columns: str, message: str) -> None:
    with pytest.raises((AnalysisException, ParseException), match=message):
        spark.sql(f"CREATE TABLE {table} ({columns})")
    assert not spark.catalog.tableExists(table)
