"""Tables that the reference library changed in every way that it knows are read equal, at every version."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from tests.support.equality import assert_tables_equal

VERSIONS = ("2.0", "2.1", "2.2")


def start(tmp_path: Path, version: str = "2.2", **options: object) -> tuple[str, lance.LanceDataset]:
    table = pa.table(
        {
            "id": pa.array(range(2000), pa.int64()),
            "name": pa.array([None if i % 7 == 0 else f"name {i}" for i in range(2000)]),
            "tags": pa.array([[f"t{j}" for j in range(i % 3)] for i in range(2000)], pa.list_(pa.string())),
            "point": pa.array([{"x": i, "y": i / 2} for i in range(2000)]),
        }
    )
    uri = str(tmp_path / "t")
    lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=500, **options)
    return uri, lance.dataset(uri)


def assert_reads_equal(uri: str) -> None:
    for version in [entry["version"] for entry in lance.dataset(uri).versions()]:
        expected = lance.dataset(uri, version=version).to_table()
        dataset = lance_spark.open(uri, version=version)
        assert_tables_equal(dataset.to_table(), expected)
        assert dataset.count_rows() == expected.num_rows
        middle = list(range(0, expected.num_rows, 97))
        assert_tables_equal(dataset.take(middle), expected.take(middle))


@pytest.mark.parametrize("version", VERSIONS)
def test_delete(tmp_path: Path, version: str) -> None:
    uri, dataset = start(tmp_path, version)
    dataset.delete("id < 3")
    dataset.delete("id % 5 = 0")
    dataset.delete("id >= 500 AND id < 1000")
    assert_reads_equal(uri)


def test_more_than_5000_deleted_rows_are_a_bitmap(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(20_000)}), uri)
    lance.dataset(uri).delete("id % 3 = 1")
    assert list((tmp_path / "t" / "_deletions").glob("*.bin"))
    assert_reads_equal(uri)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_update_and_merge(tmp_path: Path, version: str, stable: bool) -> None:
    uri, dataset = start(tmp_path, version, enable_stable_row_ids=stable)
    dataset.update({"name": "'changed'"}, where="id % 10 = 1")
    source = pa.table(
        {
            "id": pa.array(range(1990, 2010), pa.int64()),
            "name": [f"merged {i}" for i in range(20)],
            "tags": pa.array([["m"]] * 20, pa.list_(pa.string())),
            "point": pa.array([{"x": 1, "y": 2.0}] * 20),
        }
    )
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    assert_reads_equal(uri)


@pytest.mark.parametrize("version", VERSIONS)
def test_add_alter_and_drop_columns(tmp_path: Path, version: str) -> None:
    uri, dataset = start(tmp_path, version)
    dataset.add_columns({"double": "id * 2"})
    dataset.add_columns(pa.field("empty", pa.string()))
    keyed = pa.table({"id": pa.array(range(0, 2000, 2), pa.int64()), "even": pa.array(range(1000), pa.int32())})
    dataset.merge(keyed, "id")
    dataset.alter_columns({"path": "name", "name": "renamed"})
    dataset.alter_columns({"path": "double", "data_type": pa.int32()})
    dataset.drop_columns(["tags"])
    dataset.delete("id % 11 = 0")
    assert_reads_equal(uri)
    assert lance_spark.open(uri).schema.names == lance.dataset(uri).schema.names


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_compact_and_restore(tmp_path: Path, version: str, stable: bool) -> None:
    uri, dataset = start(tmp_path, version, enable_stable_row_ids=stable)
    dataset.delete("id % 4 = 0")
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    assert_reads_equal(uri)
    lance.dataset(uri, version=1).restore()
    assert_reads_equal(uri)


@pytest.mark.parametrize("version", VERSIONS)
def test_stable_row_ids_are_the_same_as_pylance_says(tmp_path: Path, version: str) -> None:
    uri, dataset = start(tmp_path, version, enable_stable_row_ids=True)
    dataset.delete("id % 4 = 0")
    dataset.update({"name": "'changed'"}, where="id % 10 = 1")
    dataset.optimize.compact_files(target_rows_per_fragment=1500)
    expected = lance.dataset(uri).scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table()
    ours = lance_spark.open(uri).to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert_tables_equal(ours.select(expected.column_names), expected)


def test_row_addresses_without_stable_row_ids(tmp_path: Path) -> None:
    uri, dataset = start(tmp_path)
    dataset.delete("id % 4 = 0")
    expected = lance.dataset(uri).scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table()
    ours = lance_spark.open(uri).to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert_tables_equal(ours.select(expected.column_names), expected)


def test_tags_branches_timestamps_and_clones(tmp_path: Path) -> None:
    uri, dataset = start(tmp_path)
    dataset.tags.create("before", 1)
    dataset.delete("id < 100")
    branch = dataset.create_branch("side", 1)
    lance.write_dataset(dataset.to_table().slice(0, 5), branch.uri, mode="append")
    dataset.delete("id < 200")
    assert lance_spark.open(uri).count_rows() == 1800
    assert lance_spark.open(uri, tag="before").count_rows() == 2000
    assert_tables_equal(lance_spark.open(uri, branch="side").to_table(), lance.dataset(branch.uri).to_table())
    versions = lance.dataset(uri).versions()
    moment = versions[1]["timestamp"]
    assert lance_spark.open(uri, timestamp=moment + timedelta(microseconds=1)).version == versions[1]["version"]
    clone = str(tmp_path / "clone")
    dataset.shallow_clone(clone, 2)
    assert_tables_equal(lance_spark.open(clone).to_table(), lance.dataset(clone).to_table())


def test_data_files_of_several_versions_in_one_table(tmp_path: Path) -> None:
    uri, dataset = start(tmp_path, "2.2")
    lance.write_dataset(dataset.to_table(), uri, mode="append", data_storage_version="2.1")
    lance.write_dataset(dataset.to_table(), uri, mode="append", data_storage_version="2.0")
    assert_reads_equal(uri)


def test_both_manifest_naming_schemes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(10)}), uri, enable_v2_manifest_paths=False)
    for _ in range(11):
        lance.write_dataset(pa.table({"a": range(10)}), uri, mode="append")
    assert (tmp_path / "t" / "_versions" / "12.manifest").exists()
    assert_reads_equal(uri)
    lance_spark.write(pa.table({"a": range(10)}), uri, mode="append")
    assert (tmp_path / "t" / "_versions" / "13.manifest").exists()
    assert lance.dataset(uri).count_rows() == 130
    assert lance_spark.open(uri).version == 13


def test_the_hint_is_not_trusted(tmp_path: Path) -> None:
    uri, dataset = start(tmp_path)
    dataset.delete("id < 100")
    hint = tmp_path / "t" / "_versions" / "latest_version_hint.json"
    for text in ('{"version":1}', '{"version":99}', "not json"):
        hint.write_text(text)
        assert lance_spark.open(uri).version == 2
