"""What streams of older versions read in columns that came later, whatever else became of the columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from shutil import copytree

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.spark.streaming.admission import StreamReader
from lance_spark.spark.streaming.history import history_of
from lance_spark.spark.streaming.offsets import Offset
from lance_spark.spark.streaming.options import SourceOptions
from lance_spark.table.reading.scan import Scan
from tests.support.connector.streams import batches

VALUE, OTHER = {"value": "id * 100"}, {"other": "id * 1000"}
Change = Callable[[lance.LanceDataset], object]


def rows(first: int, last: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, last), pa.int64()), "s": ["text"] * (last - first)})


def renamed(uri: str) -> None:
    lance.dataset(uri).alter_columns({"path": "value", "name": "renamed"})


def rows_of_version(uri: str, version: int) -> list[dict[str, object]]:
    """What a stream brings for a version, with the columns of the newest one."""
    table = lance_spark.open(uri)
    history = history_of(uri, {}, None, is_partitioned=False)
    reader = StreamReader(history, SourceOptions.parse({}, uri), uri, table.lance_schema, table.version)
    found: list[dict[str, object]] = []
    for file in reader.files(Offset(version - 1), Offset(version)):
        scan = Scan.of(file.columns or reader.schema, file.split.bases)
        found += [row for batch in scan.read([file.fragment]) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize(
    ("added", "change", "name"),
    [
        (VALUE | OTHER, lambda table: table.drop_columns(["other"]), "value"),
        (VALUE, lambda table: table.drop_columns(["s"]), "value"),
        (VALUE, lambda table: renamed(table.uri), "renamed"),
        (VALUE, lambda table: table.alter_columns({"path": "s", "name": "renamed"}), "value"),
    ],
    ids=["one of two dropped", "another dropped", "renamed", "another renamed"],
)
def test_later_columns_have_their_values(tmp_path: Path, added: dict[str, str], change: Change, name: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 5), uri)
    lance.write_dataset(rows(5, 8), uri, mode="append")
    lance.dataset(uri).add_columns(added)
    change(lance.dataset(uri))
    assert [(row["id"], row[name]) for row in rows_of_version(uri, 2)] == [(5, 500), (6, 600), (7, 700)]


@pytest.mark.parametrize("names", [["new"], ["new", "value"], ["value", "new"]], ids=str)
def test_columns_of_a_replaced_table_do_not_have_the_values_of_others(tmp_path: Path, names: list[str]) -> None:
    """The new table gives the ids of the later columns to others."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 5), uri)
    lance.write_dataset(rows(5, 7), uri, mode="append")
    lance.dataset(uri).add_columns(VALUE | OTHER)
    new = rows(0, 1)
    for name in names:
        new = new.append_column(name, pa.array([7]))
    lance.write_dataset(new, uri, mode="overwrite")
    for row in rows_of_version(uri, 2):
        assert row["new"] is None
        assert row.get("value") in (None, row["id"] * 100)


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_rows_compacted_before_a_default_have_it(spark: SparkSession, tmp_path: Path, parts: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    name = f"lance.db.compacted_defaults{'_parts' if parts else ''}"
    spark.sql(f"CREATE TABLE {name} (id INT, p INT) USING lance {parts}")
    spark.sql(f"INSERT INTO {name} VALUES (0, 1)")
    stream = spark.readStream.table(name)
    assert [row.id for row in batches(stream, tmp_path / "all")] == [0]
    assert [row.id for row in batches(stream, tmp_path / "some")] == [0]
    spark.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 1)")
    spark.sql(f"INSERT INTO {name} VALUES (3, 1), (4, 2)")
    spark.sql(f"CALL lance.system.compact(table => '{name.removeprefix('lance.')}')")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN n INT")
    spark.sql(
        f"ALTER TABLE {name} ADD COLUMNS (d INT DEFAULT 5, e DATE DEFAULT DATE'2026-01-02', s STRING DEFAULT 'a')"
    )
    spark.sql(f"ALTER TABLE {name} ADD COLUMN t STRING DEFAULT 'never'")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN d SET DEFAULT 6")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN d TYPE BIGINT")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN s TO u")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN t")
    shown = sorted(map(tuple, spark.table(name).where("id > 0").collect()))
    assert shown[0] == (1, 1, None, 5, date(2026, 1, 2), "a")
    assert sorted(map(tuple, batches(spark.readStream.table(name), tmp_path / "all"))) == shown
    for condition, ids in [
        ("d = 5 AND id > 2", [3, 4]),
        ("D = 5 AND U LIKE 'a%'", [1, 2, 3, 4]),
        ("d = 6 OR u IS NULL", []),
        ("n IS NULL", [1, 2, 3, 4]),
    ]:
        copytree(tmp_path / "some", tmp_path / condition)
        found = spark.readStream.option("filter", condition).table(name).select("id")
        assert sorted(row.id for row in batches(found, tmp_path / condition)) == ids


@pytest.mark.parametrize("text", ["row", "id + 1", "upper('a')", "5 OR", "'five'", "99999999999", "NULL"])
def test_metadata_that_is_no_constant_of_the_column_is_no_value(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """A table can come from anywhere."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": pa.array([1], pa.int32())}), uri)
    lance.write_dataset(pa.table({"id": pa.array([2], pa.int32())}), uri, mode="append")
    spark.sql(f"ALTER TABLE lance.`{uri}` ADD COLUMN d INT")
    lance_spark.open(uri).update_field_metadata({"d": {"lance-spark:existing-value": text}})
    for condition in ("id > 0", "d IS NULL"):
        stream = spark.readStream.format("lance").option("startingVersion", 1).option("filter", condition).load(uri)
        assert sorted(map(tuple, batches(stream, tmp_path / condition))) == [(1, None), (2, None)]


@pytest.mark.since("4.2", "streams of changes by name")
@pytest.mark.parametrize("parts", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_changes_add_up_to_the_default_that_older_rows_have(spark: SparkSession, tmp_path: Path, parts: str) -> None:
    """The rows come without it, and the version that brought the column changes them."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    name = f"lance.db.changed_defaults{'_parts' if parts else ''}"
    spark.sql(
        f"CREATE TABLE {name} (id INT, p INT) USING lance {parts} TBLPROPERTIES ('enable_stable_row_ids' = 'true')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 1)")
    spark.sql(f"INSERT INTO {name} VALUES (3, 1), (4, 2)")
    spark.sql(f"CALL lance.system.compact(table => '{name.removeprefix('lance.')}')")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN d INT DEFAULT 5")
    changes = spark.readStream.option("startingVersion", 1).changes(name)
    table: dict[int, tuple[int, int | None]] = {}
    for row in sorted(batches(changes, tmp_path / "c"), key=lambda row: (row._commit_version, row._change_type)):
        if row._change_type in ("insert", "update_postimage"):
            table[row.id] = (row.p, row.d)
    assert table == {1: (1, 5), 2: (1, 5), 3: (1, 5), 4: (2, 5)}


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_rows_before_a_default_have_it(spark: SparkSession, tmp_path: Path, parts: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    name = f"lance.db.defaults{'_parts' if parts else ''}"
    spark.sql(f"CREATE TABLE {name} (id INT, p INT) USING lance {parts}")
    spark.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    assert len(batches(spark.readStream.table(name), tmp_path / "c")) == 2
    spark.sql(f"INSERT INTO {name} VALUES (3, 1), (4, 2)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN n INT")
    spark.sql(f"INSERT INTO {name} VALUES (5, 2, 50)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN d STRING DEFAULT 'x'")
    spark.sql(f"INSERT INTO {name} VALUES (6, 1, 60, 'y')")
    spark.sql(f"DELETE FROM {name} WHERE id = 4")
    stream = spark.readStream.option("ignoreDeletes", "true").table(name)
    found = sorted(map(tuple, batches(stream, tmp_path / "c")))
    assert found == [(3, 1, None, "x"), (4, 2, None, "x"), (5, 2, 50, "x"), (6, 1, 60, "y")]
