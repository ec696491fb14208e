"""Overwrites of WriterV2, and statements over tables of the session catalog, while another writer appends.

The other writer commits from inside of the statement (see test_isolation.py). Whatever order the two count as, the rows
are those of that order; rows that an overwrite does not replace are never lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from tests.support.connector.isolation import RUNS, append, delete, meanwhile, unnamed_files, version
from tests.support.connector.row_level import ALTERS

NAME = "lance.overwritten"
SESSION_TABLE = "spark_catalog.default.concurrent"
Row = tuple[int, str]


@pytest.fixture(params=["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def place(spark: SparkSession, root: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The place of a table with the ids 0 to 3, k "a" or "b"."""
    spark.sql(f"CREATE TABLE {NAME} (id BIGINT, k STRING, v BIGINT) {request.param}")
    spark.sql(f"INSERT INTO {NAME} SELECT id, if(id < 2, 'a', 'b'), 0 FROM range(0, 4, 1, 1)")
    yield DirectoryNamespace(root).table_location(("overwritten",)).uri
    spark.conf.unset(RUNS)
    spark.sql(f"DROP TABLE {NAME} PURGE")


def new_rows(spark: SparkSession) -> DataFrame:
    """One row with the id 9, whose computation lets the other writer commit first."""
    return spark.range(1, 2).selectExpr("meanwhile(id) + 8 AS id", "'a' AS k", "1L AS v")


def rows_of(spark: SparkSession, table: str) -> set[Row]:
    rows = spark.table(table).collect()
    assert len(rows) == len(set(rows))
    return {(row.id, row.k) for row in rows}


def refused(write: Callable[[], object]) -> bool:
    """Whether a write was refused because of the other writer."""
    try:
        write()
        return False
    except PySparkException as error:
        if "LANCE_COMMIT_CONFLICT" not in str(error):
            raise
        return True


BEFORE = {(0, "a"), (1, "a"), (2, "b"), (3, "b")}


@pytest.mark.slow
@pytest.mark.parametrize("runs", ["1", "10"])
@pytest.mark.parametrize("appended", [(50, "a"), (50, "b")])
def test_overwrite_partitions_and_an_append(
    spark: SparkSession, place: str, appended: Row, runs: str, request: pytest.FixtureRequest
) -> None:
    spark.conf.set(RUNS, runs)
    before = version(place)
    meanwhile(spark, place, append(place, *appended))
    conflict = refused(lambda: new_rows(spark).writeTo(NAME).overwritePartitions())
    found = rows_of(spark, NAME)
    assert version(place) >= before + (1 if conflict else 2)
    if conflict:
        assert found == BEFORE | {appended}
        return
    is_partitioned = "PARTITIONED" in request.node.callspec.params["place"]
    kept = {row for row in BEFORE if is_partitioned and row[1] == "b"}
    replaceable = not is_partitioned or appended[1] == "a"
    orders = [kept | {(9, "a"), appended}, *([kept | {(9, "a")}] if replaceable else [])]
    assert found in orders


@pytest.mark.slow
@pytest.mark.parametrize("runs", ["1", "10"])
@pytest.mark.parametrize("appended", [(50, "a"), (-5, "a"), (50, "b"), (-5, "b")])
def test_overwrite_by_a_condition_and_an_append(spark: SparkSession, place: str, appended: Row, runs: str) -> None:
    spark.conf.set(RUNS, runs)
    meanwhile(spark, place, append(place, *appended))
    conflict = refused(lambda: new_rows(spark).writeTo(NAME).overwrite(F.col("id") < 3))
    found = rows_of(spark, NAME)
    if conflict:
        assert found == BEFORE | {appended}
        return
    kept = {(3, "b"), (9, "a")}
    assert found in ([kept | {appended}, kept] if appended[0] < 3 else [kept | {appended}])


def _put_other_rows(uri: str, restores: bool, is_partitioned: bool) -> Callable[[], object]:
    def act() -> object:
        import lance_spark

        dataset = lance_spark.open(uri)
        if restores:
            return dataset.delete("id = 0").restore(dataset.version)
        rows = pa.table({"id": [7], "k": ["a"], "v": [0]})
        return dataset.overwrite(rows, only_written_partitions=is_partitioned)

    return act


@pytest.mark.slow
@pytest.mark.parametrize("restores", [True, False])
def test_an_append_and_other_rows(spark: SparkSession, place: str, restores: bool) -> None:
    """It follows them, or is run again after them."""
    before = version(place)
    is_partitioned = Path(place, "__manifest").exists()
    meanwhile(spark, place, _put_other_rows(place, restores, is_partitioned))
    new_rows(spark).writeTo(NAME).append()
    others = {(2, "b"), (3, "b")} if is_partitioned else set()
    kept = BEFORE if restores else {(7, "a"), *others}
    assert rows_of(spark, NAME) == kept | {(9, "a")}
    assert version(place) == before + (3 if restores else 2)


CHANGES = {
    "delete": (
        f"DELETE FROM {NAME} WHERE k = 'a' AND meanwhile(id + 1) > 0",
        lambda rows: {row for row in rows if row[1] != "a"},
    ),
    "update": (
        f"UPDATE {NAME} SET id = id + 20 WHERE meanwhile(id + 1) > 0",
        lambda rows: {(key + 20, k) for key, k in rows},
    ),
    "merge": (
        f"MERGE WITH SCHEMA EVOLUTION INTO {NAME} t USING "
        "(SELECT meanwhile(id) + 6 AS id, 'a' AS k, 1L AS v, 'x' AS more FROM range(1, 2)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        lambda rows: rows | {(7, "a")},
    ),
    "replace": (
        f"INSERT INTO {NAME} REPLACE WHERE k = 'a' SELECT meanwhile(id) + 8 AS id, 'a' AS k, 1L AS v FROM range(1, 2)",
        lambda rows: {row for row in rows if row[1] != "a"} | {(9, "a")},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "restores"), [("delete", True), ("update", False), ("merge", True), ("merge", False), ("replace", False)]
)
def test_a_statement_runs_again_on_other_rows(spark: SparkSession, place: str, name: str, restores: bool) -> None:
    """After an overwrite or a restore by another writer, as if it had begun a moment later."""
    before = version(place)
    is_partitioned = Path(place, "__manifest").exists()
    meanwhile(spark, place, _put_other_rows(place, restores, is_partitioned))
    statement, effect = CHANGES[name]
    spark.sql(statement)
    others = {(2, "b"), (3, "b")} if is_partitioned else set()
    assert rows_of(spark, NAME) == effect(BEFORE if restores else {(7, "a"), *others})
    assert version(place) == before + (3 if restores else 2) + (ALTERS if "SCHEMA EVOLUTION" in statement else 0)
    assert not unnamed_files(place)


@pytest.fixture
def session_table(spark: SparkSession, uri: str) -> Iterator[str]:
    """The place of a table of the session catalog with the ids 0 to 3."""
    spark.sql(f"CREATE TABLE {SESSION_TABLE} (id BIGINT, k STRING, v BIGINT) USING lance LOCATION '{uri}'")
    spark.sql(f"INSERT INTO {SESSION_TABLE} SELECT id, 'a', 0 FROM range(0, 4, 1, 1)")
    yield uri
    spark.conf.unset(RUNS)
    spark.sql(f"DROP TABLE {SESSION_TABLE}")


STATEMENTS = {
    "merge": (
        f"MERGE INTO {SESSION_TABLE} t USING "
        "(SELECT meanwhile(id) + id AS id, 'a' AS k, 1L AS v FROM range(0, 26, 1, 1)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED AND s.id = 50 THEN INSERT *"
    ),
    "update": f"UPDATE {SESSION_TABLE} SET v = v + 1 WHERE id <> 3 AND meanwhile(id) < 100",
    "delete": f"DELETE FROM {SESSION_TABLE} WHERE id <> 3 AND meanwhile(id) < 100",
}
SERIAL = {
    "merge": {0: 1, 1: 0, 2: 1, 3: 0, 50: 101},
    "update": {0: 1, 1: 1, 2: 1, 3: 0, 50: 101},
    "delete": {3: 0},
}
"""`v` by id where the row 50 came first."""


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEMENTS)
def test_session_catalog_and_an_append(spark: SparkSession, session_table: str, name: str) -> None:
    meanwhile(spark, session_table, append(session_table, 50))
    spark.sql(STATEMENTS[name])
    assert {row.id: row.v for row in spark.table(SESSION_TABLE).collect()} == SERIAL[name]
    assert spark.table(SESSION_TABLE).count() == len(SERIAL[name])


@pytest.mark.parametrize("name", STATEMENTS)
def test_session_catalog_and_an_append_in_one_run(spark: SparkSession, session_table: str, name: str) -> None:
    spark.conf.set(RUNS, "1")
    meanwhile(spark, session_table, append(session_table, 50))
    assert refused(lambda: spark.sql(STATEMENTS[name]))
    assert {row.id: row.v for row in spark.table(SESSION_TABLE).collect()} == {0: 0, 1: 0, 2: 0, 3: 0, 50: 100}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEMENTS)
def test_session_catalog_and_a_delete(spark: SparkSession, session_table: str, name: str) -> None:
    meanwhile(spark, session_table, delete(session_table, "id = 2"))
    spark.sql(STATEMENTS[name])
    serial = {key: value for key, value in SERIAL[name].items() if key not in (2, 50)}
    expected = serial | ({50: 1} if name == "merge" else {})
    assert {row.id: row.v for row in spark.table(SESSION_TABLE).collect()} == expected
