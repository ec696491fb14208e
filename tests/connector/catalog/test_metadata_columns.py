"""Columns that every table has and SELECT * leaves out."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

CREATED, CHANGED = "_row_created_at_version", "_row_last_updated_at_version"


def test_the_row_address_is_described_as_in_the_glossary(spark: SparkSession, uri: str) -> None:
    spark.range(1).write.format("lance").save(uri)
    (shown,) = spark.sql(f"DESCRIBE EXTENDED lance.`{uri}`").where("col_name = '_rowaddr'").collect()
    glossary = (Path(__file__).parents[3] / "docs" / "how-it-works" / "glossary.md").read_text()
    (meaning,) = re.findall(r"^\| row address \| ([^|]+) \|", glossary, re.MULTILINE)
    assert shown.comment == f"address of the row: {meaning}"


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (part)"])
@pytest.mark.parametrize("stable", [False, True])
def test_row_versions_of_every_table(spark: SparkSession, partitioning: str, stable: bool) -> None:
    table = f"lance.versions_{stable}_{bool(partitioning)}"
    properties = "TBLPROPERTIES ('enable_stable_row_ids' = 'true')" if stable else ""
    spark.sql(f"CREATE TABLE {table} (id INT, part STRING) USING lance {partitioning} {properties}")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'a')")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'a')")
    spark.sql(f"UPDATE {table} SET id = 20 WHERE id = 2")
    assert spark.table(table).columns == ["id", "part"]
    rows = [tuple(row) for row in spark.sql(f"SELECT id, {CREATED}, {CHANGED} FROM {table} ORDER BY id").collect()]
    if not stable:
        assert rows == [(1, 1, 1), (3, 1, 1), (20, 1, 1)]
        assert spark.table(table).where(f"{CREATED} = 1 AND {CHANGED} < 2").count() == 3
        assert spark.table(table).where(f"{CREATED} > 1").count() == 0
        return
    (_, first, _), (_, second, _), (_, created, changed) = rows
    assert (rows[0], rows[1]) == ((1, first, first), (3, second, second))
    assert (created, changed, second) == (first, first + 2, first + 1)
    assert [row.id for row in spark.table(table).where(f"{CHANGED} > {second}").collect()] == [20]
    assert spark.table(table).agg({CHANGED: "max"}).first()[0] == first + 2


def test_row_versions_of_a_plain_table_are_those_of_pylance(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    spark.range(3, 5).write.format("lance").mode("append").save(uri)
    theirs = lance.dataset(uri).to_table(columns=["id", CREATED, CHANGED]).to_pylist()
    ours = spark.read.format("lance").load(uri).select("id", CREATED, CHANGED).collect()
    assert sorted(map(tuple, ours)) == sorted(tuple(row.values()) for row in theirs)
