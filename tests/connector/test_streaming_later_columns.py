"""What streams of older versions read in columns that came later, whatever else became of the columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.spark.streaming.admission import StreamReader
from lance_spark.spark.streaming.history import history_of
from lance_spark.spark.streaming.offsets import Offset
from lance_spark.spark.streaming.options import SourceOptions
from lance_spark.table.reading.scan import Scan

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
        found += [row for batch in scan.read_fragment(file.fragment) for row in batch.to_pylist()]
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
