"""`Dataset.upgrade_files`: the same rows in files of a newer version, read equal by the reference library."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.maintenance import upgrade
from tests.support.equality import assert_tables_equal

GOLDEN = Path(__file__).parents[2] / "golden"


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": pa.array([None if i % 3 == 0 else f"text {i}" for i in numbers], pa.string()),
            "tags": pa.array([[str(i)] * (i % 3) for i in numbers], pa.list_(pa.string())),
            "point": pa.array([{"x": i, "y": float(i)} for i in numbers]),
            "kind": pa.array([f"kind {i % 3}" for i in numbers]).dictionary_encode(),
        }
    )


def file_versions(uri: str) -> set[str]:
    return {file.version.value for fragment in lance_spark.open(uri).fragments for file in fragment.files}


def assert_upgraded(uri: str, version: str, expected: pa.Table) -> None:
    reference, ours = lance.dataset(uri), lance_spark.open(uri)
    reference.validate()
    assert_tables_equal(reference.to_table(), expected)
    assert_tables_equal(ours.to_table(), expected)
    assert file_versions(uri) == {version}
    assert reference.data_storage_version == version
    assert ours.file_version is not None
    assert ours.file_version.value == version


@pytest.mark.parametrize(
    ("old", "new"),
    [("legacy", "2.0"), ("legacy", "2.1"), ("legacy", "2.2"), ("2.0", "2.1"), ("2.0", "2.2"), ("2.1", "2.2")],
)
def test_every_older_version(tmp_path: Path, old: str, new: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 60), uri, data_storage_version=old, max_rows_per_file=20)
    lance.dataset(uri).delete("id % 7 = 0")
    before = lance_spark.open(uri)
    expected = before.to_table()
    calls: list[tuple[int, int]] = []

    made = before.upgrade_files(new, commit_message="newer", progress=lambda done, total: calls.append((done, total)))

    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert made.version == before.version + 1
    assert len(made.fragments) == 3
    assert_upgraded(uri, new, expected)
    lance.write_dataset(rows(100, 103), uri, mode="append")
    lance_spark.write(rows(103, 105), uri, mode="append")
    assert_upgraded(uri, new, pa.concat_tables([expected, rows(100, 105)]))
    assert lance_spark.open(uri, version=before.version).to_table() == expected
    assert lance_spark.open(uri).upgrade_files(new).version == made.version + 2


DOUBLED = "0.16.0-wrong_data_version_no_fix"
"""A table in which two fragments have the same id."""


def _golden_tables() -> list[Path]:
    return sorted(path for path in (GOLDEN / "v0_1").iterdir() if path.is_dir() and path.name != DOUBLED)


@pytest.mark.parametrize("folder", _golden_tables(), ids=lambda folder: folder.name)
def test_tables_of_old_releases(tmp_path: Path, folder: Path) -> None:
    uri = str(tmp_path / "t")
    shutil.copytree(folder, uri)
    before = lance_spark.open(uri)
    expected = before.to_table()

    made = before.upgrade_files()

    assert made.to_table() == expected
    assert file_versions(uri) <= {"2.2"}
    assert lance.dataset(uri).to_table() == expected
    assert lance.dataset(uri).data_storage_version == "2.2"


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_table_with_doubled_fragment_ids_is_refused(tmp_path: Path, version: str) -> None:
    """With 2.0, only one of the two fragments is rewritten; both would be replaced."""
    uri = str(tmp_path / "t")
    shutil.copytree(GOLDEN / "v0_1" / DOUBLED, uri)
    files = sorted((tmp_path / "t").rglob("*"))
    with pytest.raises(InvalidInputError, match="share an id"):
        lance_spark.open(uri).upgrade_files(version)
    assert sorted((tmp_path / "t").rglob("*")) == files
    assert lance_spark.open(uri).to_table()["foo"].to_pylist() == [1, 2, 1, 3]


def test_stable_row_ids_stay(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 30), uri, data_storage_version="2.0", max_rows_per_file=10, enable_stable_row_ids=True)
    lance.dataset(uri).delete("id < 15")
    before = lance_spark.open(uri).to_table(with_row_id=True)

    lance_spark.open(uri).upgrade_files("2.2")

    assert lance_spark.open(uri).to_table(with_row_id=True) == before
    assert lance.dataset(uri).to_table(with_row_id=True)["_rowid"] == before["_rowid"]


def test_indexed_rows_are_still_found(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 30), uri, data_storage_version="2.0", max_rows_per_file=10).create_scalar_index(
        "id", "BTREE"
    )
    lance_spark.open(uri).upgrade_files("2.2")
    for found in (lance.dataset(uri).to_table(filter="id = 12"), lance_spark.open(uri).to_table(filter="id = 12")):
        assert found["id"].to_pylist() == [12]


@pytest.mark.parametrize("old", ["legacy", "2.0"])
@pytest.mark.parametrize("change", ["append", "delete"])
def test_concurrent_change_is_upgraded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, old: str
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 30), uri, data_storage_version=old, max_rows_per_file=10)
    tasks: list[int] = []
    run = upgrade.run_task

    def interrupted(*arguments: object) -> object:
        tasks.append(1)
        if len(tasks) == 2:
            if change == "append":
                lance.write_dataset(rows(30, 40), uri, mode="append")
            else:
                lance.dataset(uri).delete("id = 25")
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(upgrade, "run_task", interrupted)
    lance_spark.open(uri).upgrade_files("2.2")

    expected = [*range(40)] if change == "append" else [i for i in range(30) if i != 25]
    assert sorted(lance_spark.open(uri).to_table()["id"].to_pylist()) == expected
    assert lance.dataset(uri).count_rows() == len(expected)
    assert file_versions(uri) == {"2.2"}
    assert len(tasks) == 4, "only the changed fragment is rewritten again"
    used = {file.path for fragment in lance_spark.open(uri).fragments for file in fragment.files}
    newer = [path.name for path in (tmp_path / "t" / "data").iterdir() if path.name in used]
    assert len(newer) == len(used)


def test_empty_table_changes_its_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 3).slice(0, 0), uri, data_storage_version="2.0")
    lance_spark.open(uri).upgrade_files("2.2")
    lance.write_dataset(rows(0, 3), uri, mode="append")
    assert_upgraded(uri, "2.2", rows(0, 3))


def test_mixed_table_keeps_newer_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0, 5), uri, file_format_version="2.0")
    lance_spark.write(rows(5, 10), uri, mode="append", file_format_version="2.2")
    paths = [file.path for file in lance_spark.open(uri).fragments[1].files]
    lance_spark.open(uri).upgrade_files("2.2")
    assert paths[0] in {file.path for fragment in lance_spark.open(uri).fragments for file in fragment.files}
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [*range(10)]


def test_refused_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance_spark.write(rows(0, 5), uri)
    with pytest.raises(InvalidInputError, match=r"of file version 2\.2, which is newer than 2\.0"):
        dataset.upgrade_files("2.0")
    with pytest.raises(InvalidInputError, match=r"cannot be upgraded to file version 2\.3; choose one of 2\.0, 2\.1"):
        dataset.upgrade_files("2.3")
    with pytest.raises(InvalidInputError, match="unknown file format version"):
        dataset.upgrade_files("9")
    assert dataset.upgrade_files("2.2").version == dataset.version


def test_compaction_of_a_legacy_table_names_the_upgrade(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 5), uri, data_storage_version="legacy")
    with pytest.raises(UnsupportedFeatureError, match="upgrade_files"):
        lance_spark.open(uri).compact()
