"""Many sessions and Python writers merge into one table: totals are exact, and every key is there once.

`make soak` does it longer (LANCE_RACE_ROUNDS).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import RetryableConflictError
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.table import is_partitioned_table, open_partitioned
from tests.partitioned.verbs import merge_rows

ROUNDS = int(os.environ.get("LANCE_RACE_ROUNDS", "1"))
SESSIONS = 16
PYTHON_WRITERS = 2
TABLE = "lance.counters"


@pytest.fixture(params=["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def uri(spark: SparkSession, root: str, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.sql(f"CREATE TABLE {TABLE} (id BIGINT, k STRING, v BIGINT) USING lance {request.param}")
    spark.sql(f"INSERT INTO {TABLE} VALUES (0, 'k0', 0)")
    yield DirectoryNamespace(root).table_location(("counters",)).uri
    spark.sql(f"DROP TABLE {TABLE} PURGE")


def _run_all(actions: Sequence[Callable[[], None]]) -> None:
    """Runs all at the same time; raises the first error."""
    errors: list[Exception] = []
    ready = threading.Barrier(len(actions))

    def run(action: Callable[[], None]) -> None:
        ready.wait()
        try:
            action()
        except Exception as error:  # noqa: BLE001  A thread hands its error over.
            errors.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _count_up(spark: SparkSession, number: int) -> Callable[[], None]:
    """Counts up one of three counters in each round, and the counter of all sessions."""

    def act() -> None:
        session = spark.newSession()
        session.conf.set("spark.sql.lance.maxStatementRuns", "50")
        for step in range(ROUNDS):
            key = 1 + (number + step) % 3
            session.sql(
                f"""MERGE INTO {TABLE} t
                    USING (SELECT * FROM VALUES (0L, 'k0', 1L), ({key}L, 'k{key}', 1L) AS s(id, k, v)) s
                    ON t.id = s.id
                    WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"""
            )

    return act


def _insert_from_python(uri: str, number: int) -> Callable[[], None]:
    """Brings in rows that no session touches, by the Python interface."""

    def act() -> None:
        for step in range(3 * ROUNDS):
            rows = pa.table({"id": [1000 + step], "k": ["python"], "v": [number]})
            for _ in range(20):
                try:
                    if is_partitioned_table(uri):
                        merge_rows(open_partitioned(uri), rows, "id", when_matched=None)
                    else:
                        lance_spark.open(uri).merge(rows, on="id", when_matched=None)
                    break
                except RetryableConflictError:
                    continue

    return act


@pytest.mark.slow
def test_counters_are_exact_and_keys_are_unique(spark: SparkSession, uri: str) -> None:
    sessions = [_count_up(spark, number) for number in range(SESSIONS)]
    writers = [_insert_from_python(uri, number) for number in range(PYTHON_WRITERS)]
    _run_all([*sessions, *writers])
    expected = Counter({0: SESSIONS * ROUNDS})
    for number in range(SESSIONS):
        expected.update(1 + (number + step) % 3 for step in range(ROUNDS))
    rows = spark.table(TABLE).collect()
    counted = [(row.id, row.v) for row in rows if row.id < 1000]
    assert sorted(counted) == sorted(expected.items())
    assert sorted(row.id for row in rows if row.id >= 1000) == list(range(1000, 1000 + 3 * ROUNDS))


@pytest.mark.slow
def test_one_new_key_is_inserted_once(spark: SparkSession, uri: str) -> None:
    """MERGEs that only insert, as the issue has them, from sessions and from Python at the same time."""
    assert uri

    def insert() -> None:
        session = spark.newSession()
        session.conf.set("spark.sql.lance.maxStatementRuns", "50")
        for step in range(ROUNDS):
            session.sql(
                f"""MERGE INTO {TABLE} t USING (SELECT {1000 + step}L AS id, 'python' AS k, 1L AS v) s ON t.id = s.id
                    WHEN NOT MATCHED THEN INSERT *"""
            )

    _run_all([*[insert] * SESSIONS, _insert_from_python(uri, 7)])
    keys = [row.id for row in spark.table(TABLE).where("id >= 1000").collect()]
    assert sorted(keys) == list(range(1000, 1000 + 3 * ROUNDS))
