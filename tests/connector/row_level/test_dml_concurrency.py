"""Statements while others commit, and tasks that fail: every change lands once, or none of it does.

A rival commits from inside of the statement, by a function that the statement calls for one of its rows: that is after
the version was read and before the commit, every time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tests.support.connector.row_level import file_names, make, seen, version, wait_for_files, words


def _rival(spark: SparkSession, uri: str, action: str) -> None:
    """`rival(id)` is the id; for row 1 it lets somebody else commit first, once."""
    known = version(uri)

    def rival(key: int) -> int:
        import lance_spark

        if key == 1 and lance_spark.open(uri).version == known:
            if action == "append":
                import pyarrow as pa

                lance_spark.write(pa.table({"id": [100], "word": ["new"], "part": [0]}), uri, mode="append")
            elif action == "compact":
                lance_spark.open(uri).compact()
            else:
                lance_spark.open(uri).delete(action)
        return key

    spark.udf.register("rival", udf(rival, "bigint"))


@pytest.mark.slow
def test_rivals_of_other_rows(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 10), uri)
    _rival(spark, uri, "id = 2")
    spark.sql(f"UPDATE {table} SET word = concat('u', rival(id)) WHERE id IN (0, 1, 9)")
    assert version(uri) == 3
    _rival(spark, uri, "append")
    spark.sql(f"DELETE FROM {table} WHERE rival(id) IN (1, 3)")
    assert version(uri) == 5
    words(spark, 10).createOrReplaceTempView("all_words")
    _rival(spark, uri, "id = 4")
    spark.sql(
        f"""MERGE INTO {table} t USING (SELECT id + 8 AS id, word FROM all_words) s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET word = 'm'
            WHEN NOT MATCHED AND rival(s.id - 13) > 0 THEN INSERT (id, word) VALUES (s.id, s.word)"""
    )
    assert version(uri) == 7
    assert seen(spark, uri, "id", "word") == [
        (0, "u0"),
        (5, "w5"),
        (6, "w6"),
        (7, "w7"),
        (8, "m"),
        (9, "m"),
        *((key, f"w{key - 8}") for key in range(14, 18)),
        (100, "new"),
    ]


@pytest.mark.parametrize("action", ["id = 1", "compact"])
def test_rivals_of_the_same_rows(spark: SparkSession, uri: str, action: str) -> None:
    """The statement is run again by itself, and leaves no file of its first run."""
    table = make(words(spark, 10), uri)
    lance.dataset(uri).delete("id = 7")
    _rival(spark, uri, action)
    spark.sql(f"UPDATE {table} SET word = concat('u', rival(id)) WHERE id < 3")
    assert version(uri) == 4
    found = {row[0]: row[1] for row in seen(spark, uri, "id", "word") if row[0] < 3}
    assert found == {0: "u0", 2: "u2", **({} if action == "id = 1" else {1: "u1"})}
    named = {name for entry in lance.dataset(uri).versions() for name in _named(uri, entry["version"])}
    wait_for_files(uri, named)


@pytest.mark.parametrize("action", ["id = 1", "compact"])
def test_rivals_of_the_same_rows_of_a_single_run(spark: SparkSession, uri: str, action: str) -> None:
    table = make(words(spark, 10), uri)
    lance.dataset(uri).delete("id = 7")
    _rival(spark, uri, action)
    spark.conf.set("spark.sql.lance.maxStatementRuns", "1")
    try:
        with pytest.raises(Exception, match="LANCE_COMMIT_CONFLICT"):
            spark.sql(f"UPDATE {table} SET word = concat('u', rival(id)) WHERE id < 3")
    finally:
        spark.conf.unset("spark.sql.lance.maxStatementRuns")
    assert version(uri) == 3
    named = {name for entry in lance.dataset(uri).versions() for name in _named(uri, entry["version"])}
    wait_for_files(uri, named)


def _named(uri: str, number: int) -> list[str]:
    return [name for fragment in lance.dataset(uri, version=number).get_fragments() for name in _names(fragment)]


def _names(fragment: lance.LanceFragment) -> list[str]:
    return [file.path for file in fragment.metadata.files]


def test_a_statement_that_fails_leaves_nothing(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 10), uri)
    before = file_names(uri)

    def fails(key: int) -> int:
        if key == 7:
            raise ValueError("no seven")
        return key

    spark.udf.register("fails", udf(fails, "bigint"))
    with pytest.raises(Exception, match="no seven"):
        spark.sql(f"UPDATE {table} SET part = fails(id)")
    assert version(uri) == 1
    wait_for_files(uri, before)


_RETRIES = """
import sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from lance_spark import configure

uri = sys.argv[1]
builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
spark = configure(builder, "lance").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.range(0, 40000, numPartitions=2).write.format("lance").option("max_row_per_file", "5000").save(uri)

def fails_once(key):
    if key == 35000 and TaskContext.get().attemptNumber() == 0:
        raise ValueError("the first attempt")
    return -key

spark.udf.register("fails_once", udf(fails_once, "bigint"))
spark.sql(f"UPDATE lance.`{uri}` SET id = fails_once(id) WHERE id % 2 = 0")
"""


@pytest.mark.slow
def test_a_task_that_is_tried_again(uri: str, jar: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    subprocess.run([sys.executable, "-c", textwrap.dedent(_RETRIES), uri], check=True, env=environment, timeout=300)
    dataset = lance.dataset(uri)
    assert dataset.version == 2
    ids = dataset.to_table()["id"].to_pylist()
    assert sorted(ids) == sorted(-key if key % 2 == 0 else key for key in range(40000))
    named = {
        name
        for number in (1, 2)
        for item in lance.dataset(uri, version=number).get_fragments()
        for name in _names(item)
    }
    wait_for_files(uri, named)
