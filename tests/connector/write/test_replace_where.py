"""REPLACE WHERE over tables that are too large for the driver: tasks look for the rows that go."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.table import open_partitioned
from tests.support.connector.row_level import forget_sizes, make, seen, version, words
from tests.support.connector.spark_jobs import jobs

ROWS = 40


def _large(spark: SparkSession, uri: str) -> str:
    """Twenty fragments of two rows, of unknown size; row 7 is deleted. Version 3."""
    table = make(words(spark, ROWS, 1), uri, max_row_per_file="2")
    forget_sizes(uri)
    # The reference library would look up the sizes.
    lance_spark.open(uri).delete("id = 7")
    assert version(uri) == 3
    return table


def _jobs(spark: SparkSession, statement: str) -> int:
    """How many Spark jobs a statement runs."""
    return jobs(spark, lambda: spark.sql(statement))[0]


def _files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


@pytest.mark.slow
def test_tasks_look_for_the_rows(spark: SparkSession, uri: str) -> None:
    table = _large(spark, uri)
    small = make(words(spark, ROWS, 1), f"{uri}_small")
    statement = "REPLACE WHERE word IN ('w1', 'w2', 'w3', 'w7', 'w20') SELECT 100L AS id, 'new' AS word, 0L AS part"
    assert _jobs(spark, f"INSERT INTO {table} {statement}") == _jobs(spark, f"INSERT INTO {small} {statement}") + 1
    rest = [(key, f"w{key}") for key in range(ROWS) if key not in (1, 2, 3, 7, 20)]
    assert seen(spark, uri, "id", "word") == [*rest, (100, "new")]
    assert version(uri) == 4
    fragments = lance.dataset(uri).get_fragments()
    # Rows 2 and 3 were a fragment, and nothing is left of it.
    assert len(fragments) == 20
    assert sum(fragment.metadata.deletion_file is not None for fragment in fragments) == 3


@pytest.mark.slow
def test_no_row_and_every_row(spark: SparkSession, uri: str) -> None:
    table = _large(spark, uri)
    spark.sql(f"INSERT INTO {table} REPLACE WHERE word = 'nowhere' SELECT 100L AS id, 'new' AS word, 0L AS part")
    assert len(seen(spark, uri, "id")) == ROWS
    spark.sql(f"INSERT INTO {table} REPLACE WHERE id >= 0 SELECT 1L AS id, 'x' AS word, 0L AS part WHERE 1 = 0")
    assert seen(spark, uri, "id") == []
    assert version(uri) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "left"),
    [("append", [1, 3]), ("id = 2", [1]), ("id = 20", [1]), ("compact", [1]), ("update", [1, 2])],
)
def test_a_rival_is_first(spark: SparkSession, uri: str, action: str, left: list[int]) -> None:
    """Between the version that tasks have looked at and the commit somebody else commits."""
    table = _large(spark, uri)

    def rival(key: int) -> int:
        dataset = lance_spark.open(uri)
        if dataset.version == 3 and action == "append":
            lance_spark.write(pa.table({"id": [3], "word": ["w2"], "part": [0]}), uri, mode="append")
        elif dataset.version == 3 and action == "compact":
            dataset.compact()
        elif dataset.version == 3 and action == "update":
            # Row 2 is none of those that go any more, and row 30 has become one.
            dataset.update({"word": "'kept'"}, "id = 2").update({"word": "'w20'"}, "id = 30")
        elif dataset.version == 3:
            dataset.delete(action)
        return key

    spark.udf.register("rival_of_replace", udf(rival, "bigint"))
    spark.sql(
        f"INSERT INTO {table} REPLACE WHERE word IN ('w2', 'w3', 'w20') "
        "SELECT rival_of_replace(1) AS id, 'new' AS word, 0L AS part"
    )
    deleted = {2, 3, 7, 20} | ({30} if action == "update" else set())
    kept = [key for key in range(ROWS) if key not in deleted]
    assert [row[0] for row in seen(spark, uri, "id")] == sorted([*kept, *left])
    assert version(uri) == (6 if action == "update" else 5)


def test_a_search_that_fails_leaves_nothing(spark: SparkSession, uri: str) -> None:
    table = _large(spark, uri)
    data = next(path for path in sorted((Path(uri) / "data").iterdir()))
    shutil.copy(data, f"{uri}_kept")
    data.write_bytes(data.read_bytes()[:-40] + bytes(40))
    before = _files(uri)
    with pytest.raises(Exception, match="LANCE_CORRUPT_FILE"):
        spark.sql(f"INSERT INTO {table} REPLACE WHERE word = 'w2' SELECT 1L AS id, 'new' AS word, 0L AS part")
    assert _files(uri) == before
    assert version(uri) == 3
    shutil.copy(f"{uri}_kept", data)
    assert len(seen(spark, uri, "id")) == ROWS - 1


@pytest.mark.slow
def test_many_partitions(spark: SparkSession, root: str) -> None:
    spark.sql("CREATE TABLE lance.replaced (id bigint, word string, k bigint) PARTITIONED BY (k)")
    spark.sql("INSERT INTO lance.replaced SELECT id, concat('w', id), id % 70 FROM range(140)")
    statement = "INSERT INTO lance.replaced REPLACE WHERE {} SELECT 1000L, 'new', 3L"
    by_tasks = _jobs(spark, statement.format("word IN ('w1', 'w71', 'w139') OR k = 5"))
    known = {row.id for row in spark.table("lance.replaced").collect()}
    assert known == {*range(140)} - {1, 71, 139, 5, 75} | {1000}
    assert open_partitioned(DirectoryNamespace(root).table_location(("replaced",)).uri).version == 3
    assert _jobs(spark, statement.format("k = 3")) == by_tasks - 1
    assert {row.id for row in spark.table("lance.replaced").collect()} == known - {3, 73}
    spark.sql("DROP TABLE lance.replaced PURGE")
