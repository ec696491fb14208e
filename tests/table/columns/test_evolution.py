"""Tables whose columns were changed by the reference library: nested ones, several files a fragment, moved ids."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from tests.support.equality import assert_tables_equal


def nested(num_rows: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + num_rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "s": pa.array([{"x": i, "y": {"q": i * 2, "r": str(i)}} for i in numbers]),
            "l": pa.array([[{"k": j, "m": str(j)} for j in range(i % 3)] for i in numbers]),
        }
    )


def assert_all_versions_equal(uri: str) -> None:
    for entry in lance.dataset(uri).versions():
        expected = lance.dataset(uri, version=entry["version"]).to_table()
        own = lance_spark.open(uri, version=entry["version"])
        assert own.schema == expected.schema
        assert_tables_equal(own.to_table(), expected)
        if expected.num_rows:
            assert_tables_equal(own.take([0, expected.num_rows - 1]), expected.take([0, expected.num_rows - 1]))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_nested_columns(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(nested(50), uri, data_storage_version=version, max_rows_per_file=20)
    dataset.alter_columns({"path": "s.x", "data_type": pa.int32()})
    dataset.alter_columns({"path": "s.y.r", "name": "renamed"})
    dataset.delete("id % 7 = 0")
    lance.write_dataset(
        pa.Table.from_pylist(
            [{"id": 100, "s": {"x": 1, "y": {"q": 2, "renamed": "z"}}, "l": None}], schema=lance.dataset(uri).schema
        ),
        uri,
        mode="append",
    )
    dataset = lance.dataset(uri)
    dataset.alter_columns({"path": "s.y.q", "data_type": pa.int16()})
    dataset.drop_columns(["s.x"])
    assert_all_versions_equal(uri)
    assert lance_spark.open(uri).to_table(columns=["s.y.q"]).to_pylist()[-1] == {"s.y.q": 2}
    found = lance_spark.open(uri).to_table(columns=["id"], filter="s.y.q = 2")["id"].to_pylist()
    assert found == [1, 100]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_null_structs_with_children_in_two_files(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"s": pa.array([None if i % 3 == 0 else {"x": i, "z": str(i)} for i in range(30)])})
    dataset = lance.write_dataset(table, uri, data_storage_version=version)
    dataset.alter_columns({"path": "s.x", "data_type": pa.int32()})
    assert_all_versions_equal(uri)


def test_new_children_of_a_struct(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(nested(10), uri)
    dataset.add_columns(pa.schema([pa.field("s", pa.struct([pa.field("new", pa.int32())]))]))
    dataset = lance.dataset(uri)
    lance.write_dataset(dataset.to_table(), uri, mode="append")
    assert_all_versions_equal(uri)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rewritten_columns_leave_tombstones(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(nested(40), uri, data_storage_version=version, max_rows_per_file=15)
    updates = pa.table({"_rowaddr": pa.array([0, 3, 14], pa.uint64()), "id": pa.array([-1, -2, -3], pa.int64())})
    fragment = dataset.get_fragments()[0]
    changed, fields_modified = fragment.update_columns(updates, left_on="_rowaddr", right_on="_rowaddr")
    operation = lance.LanceOperation.Update(
        updated_fragments=[changed], fields_modified=fields_modified, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
    ids = [field for file in lance_spark.open(uri).fragments[0].files for field in file.fields]
    assert -2 in ids
    assert_all_versions_equal(uri)
    appended = lance_spark.write(nested(5, 1000), uri, mode="append")
    assert_tables_equal(appended.to_table(), lance.dataset(uri).to_table())


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_replaced_data_and_columns_of_some_fragments_only(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(nested(40), uri, data_storage_version=version, max_rows_per_file=10)
    dataset.add_columns(pa.field("late", pa.string()))
    dataset.merge_insert("id").when_matched_update_all().execute(
        lance.dataset(uri)
        .to_table(filter="id BETWEEN 12 AND 17")
        .set_column(3, "late", pa.array([f"late {i}" for i in range(6)]))
    )
    dataset = lance.dataset(uri)
    partial = pa.table({"id": pa.array([1, 25], pa.int64()), "late": ["p", "q"]})
    dataset.merge_insert("id").when_matched_update_all().execute(partial)
    assert_all_versions_equal(uri)
    kept = lance_spark.open(uri).to_table(filter="late IS NOT NULL", columns=["id", "late"])
    assert sorted(kept["id"].to_pylist()) == [1, 12, 13, 14, 15, 16, 17, 25]


def test_an_id_that_was_given_away_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"a": [1, 2], "b": ["x", "y"]}), uri)
    dataset.add_columns({"c": "a * 2"})
    dataset.drop_columns(["c"])
    dataset.add_columns(pa.field("z", pa.float32()))
    lance_spark.write(pa.table({"a": [3], "z": pa.array([1.5], pa.float32())}), uri, mode="append")
    assert_all_versions_equal(uri)
    assert lance_spark.open(uri).to_table()["z"].to_pylist() == [None, None, 1.5]


def test_every_version_of_a_long_history(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(nested(100), uri, max_rows_per_file=30, enable_stable_row_ids=True)
    dataset.delete("id < 5")
    lance_spark.write(nested(20, 200), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.update({"id": "id + 10000"}, where="id % 10 = 0")
    dataset.add_columns({"twice": "id * 2"})
    dataset.optimize.compact_files(target_rows_per_fragment=60)
    dataset.drop_columns(["l"])
    lance_spark.write(lance.dataset(uri).to_table().slice(0, 7), uri, mode="append")
    lance.dataset(uri, version=3).restore()
    lance_spark.write(nested(3, 500), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    assert_all_versions_equal(uri)
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    for entry in lance.dataset(uri).versions():
        expected = lance.dataset(uri, version=entry["version"]).to_table(columns=columns)
        assert_tables_equal(lance_spark.open(uri, version=entry["version"]).to_table(columns=columns), expected)
