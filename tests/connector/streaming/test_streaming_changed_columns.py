"""What streams of older versions read after the names, types or order of columns have changed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.support.connector.streams import batches


@pytest.mark.slow
@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (k)"])
@pytest.mark.parametrize("in_snapshot", [False, True])
def test_rows_before_a_change_of_columns_come_as_the_new_dataframe_has_them(
    spark: SparkSession, tmp_path: Path, clause: str, in_snapshot: bool
) -> None:
    """Two names are swapped, two types are wider, and a name is that of another column."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.source")
    name = f"lance.source.older{in_snapshot}{len(clause)}"
    spark.sql(f"CREATE TABLE {name} (id INT, k INT, a STRING, b STRING, d DECIMAL(5, 1), x INT) USING lance {clause}")
    second = f"INSERT INTO {name} VALUES (2, 1, 'a2', 'b2', 2.5, 7)"
    spark.sql(f"INSERT INTO {name} VALUES (1, 1, 'a1', 'b1', 1.5, 7)")
    if in_snapshot:
        spark.sql(second)

    def run_once(most: int = 99) -> list[Row]:
        frame = spark.readStream.option("maxFilesPerTrigger", 1).table(name)
        return batches(frame.select("id", "a", "b", "d", "x"), tmp_path / "c", most)

    assert run_once(1) == [Row(id=1, a="a1", b="b1", d=Decimal("1.5"), x=7)]
    if not in_snapshot:
        spark.sql(second)
    for change in (
        *("ALTER COLUMN id TYPE BIGINT", "ALTER COLUMN d TYPE DECIMAL(7, 2)"),
        *("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"),
        *("DROP COLUMN x", "ADD COLUMN x INT"),
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    spark.sql(f"INSERT INTO {name} (id, k, a, b, d, x) VALUES (3, 1, 'a3', 'b3', 3.25, 8)")
    assert run_once() == [
        Row(id=2, a="b2", b="a2", d=Decimal("2.50"), x=None),
        Row(id=3, a="a3", b="b3", d=Decimal("3.25"), x=8),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (k)"])
@pytest.mark.parametrize("in_snapshot", [False, True])
def test_changes_before_a_change_of_columns_come_as_the_new_dataframe_has_them(
    spark: SparkSession, tmp_path: Path, clause: str, in_snapshot: bool
) -> None:
    """In batches that end before the last change of columns."""
    uri = str(tmp_path / "source")
    name = f"lance.`{uri}`"
    spark.sql(f"CREATE TABLE {name} (id INT, k INT, a STRING, b STRING) USING lance {clause}")
    second = f"INSERT INTO {name} VALUES (2, 1, 'a2', 'b2')"
    spark.sql(f"INSERT INTO {name} VALUES (1, 1, 'a1', 'b1')")
    if in_snapshot:
        spark.sql(second)

    def run_once(most: int = 99) -> list[tuple[object, ...]]:
        reader = spark.readStream.format("lance").option("readChangeFeed", "true").option("maxVersionsPerTrigger", 1)
        frame = reader.option("maxFilesPerTrigger", 1).load(uri).where("_change_type IN ('insert', 'delete')")
        columns = ("id", "a", "b", "_change_type")
        return [tuple(row) for row in batches(frame.select(*columns), tmp_path / "c", most)]

    assert run_once(1) == [(1, "a1", "b1", "insert")]
    if not in_snapshot:
        spark.sql(second)
    spark.sql(f"INSERT INTO {name} VALUES (3, 1, 'a3', 'b3')")
    for change in (
        "ALTER COLUMN id TYPE BIGINT",
        "RENAME COLUMN a TO c",
        "RENAME COLUMN b TO a",
        "RENAME COLUMN c TO b",
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN x INT")
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    assert run_once() == [(2, "b2", "a2", "insert"), (3, "b3", "a3", "insert"), (1, "b1", "a1", "delete")]


def test_rows_before_a_replacement_of_the_table_are_matched_by_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.source")
    name = "lance.source.replaced"
    spark.sql(f"CREATE TABLE {name} (id INT, a STRING, b STRING) USING lance")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a1', 'b1')")
    assert [row.id for row in batches(spark.readStream.table(name), tmp_path / "c")] == [1]
    spark.sql(f"INSERT INTO {name} VALUES (2, 'a2', 'b2')")
    spark.sql(f"CREATE OR REPLACE TABLE {name} (id INT, b STRING, a STRING) USING lance")
    spark.sql(f"INSERT INTO {name} VALUES (3, 'b3', 'a3')")
    found = batches(spark.readStream.option("skipChangeCommits", "true").table(name), tmp_path / "c")
    assert found == [Row(id=2, b="b2", a="a2"), Row(id=3, b="b3", a="a3")]
