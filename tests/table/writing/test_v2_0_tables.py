"""A table of file version 2.0 stays one whatever is done to it, by us and by the reference library."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from tests.support.equality import assert_tables_equal


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": pa.array([None if i % 3 == 0 else f"text {i}" for i in numbers]),
            "tags": pa.array([None if i % 5 == 0 else [str(i)] * (i % 3) for i in numbers], pa.list_(pa.string())),
            "point": pa.array([{"x": i, "y": None} for i in numbers], pa.struct([("x", pa.int8()), ("y", pa.int8())])),
        }
    )


def file_versions(uri: str) -> set[FileVersion]:
    return {file.version for fragment in lance_spark.open(uri).fragments for file in fragment.files}


def assert_both_read(uri: str, expected: pa.Table) -> None:
    reference = lance.dataset(uri)
    reference.validate()
    assert_tables_equal(reference.to_table().sort_by("id"), expected)
    assert_tables_equal(lance_spark.open(uri).to_table().sort_by("id"), expected)
    assert file_versions(uri) == {FileVersion.V2_0}
    assert reference.data_storage_version == "2.0"


@pytest.mark.parametrize("creator", ["ours", "reference"])
def test_every_change_stays_2_0(tmp_path: Path, creator: str) -> None:
    uri = str(tmp_path / "t")
    if creator == "ours":
        lance_spark.write(rows(0, 20), uri, file_format_version="2.0")
    else:
        lance.write_dataset(rows(0, 20), uri, data_storage_version="2.0")
    lance_spark.write(rows(20, 40), uri, mode="append")
    lance.write_dataset(rows(40, 60), uri, mode="append")
    assert_both_read(uri, rows(0, 60))

    dataset = lance_spark.open(uri)
    dataset.delete("id >= 50")
    lance_spark.open(uri).update({"text": "'new'"}, "id < 5")
    lance_spark.open(uri).merge(rows(45, 55), "id")
    expected = rows(0, 55).to_pydict()
    expected["text"][:5] = ["new"] * 5
    changed = pa.table(expected, schema=rows(0, 5).schema)
    assert_both_read(uri, changed)

    lance_spark.open(uri).compact()
    assert len(lance_spark.open(uri).fragments) == 1
    assert_both_read(uri, changed)

    lance_spark.write(rows(0, 5), uri, mode="overwrite")
    assert_both_read(uri, rows(0, 5))


def test_added_columns_stay_2_0(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0, 20), uri, file_format_version="2.0")
    lance_spark.open(uri).add_columns({"double": "id * 2"})
    assert file_versions(uri) == {FileVersion.V2_0}
    assert lance.dataset(uri).to_table()["double"].to_pylist() == list(range(0, 40, 2))
    assert_tables_equal(lance_spark.open(uri).to_table(), lance.dataset(uri).to_table())


@pytest.mark.parametrize("version", ["2.3", "next"])
def test_unfinished_version_is_refused_with_its_name(tmp_path: Path, version: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"version 2\.3 are not written.*choose 2\.0, 2\.1 or 2\.2"):
        lance_spark.write(rows(0, 1), str(tmp_path / "t"), file_format_version=version)


def test_append_to_a_legacy_table_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"id": pa.array(range(3), pa.int64())})
    lance.write_dataset(table, uri, data_storage_version="legacy")
    with pytest.raises(UnsupportedFeatureError, match=r"legacy version 0\.1 .*upgrade_files"):
        lance_spark.write(table, uri, mode="append")
    assert lance_spark.open(uri).to_table() == table
