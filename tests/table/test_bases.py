"""Files under other bases: clones, branches, imported folders, other stores."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.storage import open_store
from lance_spark.table.bases import BasePath, Bases, resolved
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.rows.fragment import BaseId, FragmentList
from tests.support.equality import assert_tables_equal


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/data/a", "/tables/t", "/data/a"),
        ("s3://b/a", "/tables/t", "s3://b/a"),
        ("/etc", "s3://bucket/t", "s3://bucket/etc"),
        ("file:///data/a", "s3://bucket/t", "file:///data/a"),
    ],
)
def test_where_a_base_is(path: str, root: str, expected: str) -> None:
    assert resolved(path, root) == expected


@pytest.mark.parametrize("stable", [False, True])
def test_a_shallow_clone_and_what_is_added_to_it(tmp_path: Path, stable: bool) -> None:
    uri, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    dataset = lance.write_dataset(rows(*range(20)), uri, max_rows_per_file=6, enable_stable_row_ids=stable)
    dataset.delete("a % 4 = 1")
    dataset.shallow_clone(clone, 2)
    assert_tables_equal(lance_spark.open(clone).to_table(), lance.dataset(uri).to_table())
    appended = lance_spark.write(rows(100, 101), clone, mode="append")
    assert appended.manifest.base_paths
    assert appended.manifest.reader_flags & appended.manifest.writer_flags & 16
    assert_tables_equal(appended.to_table(), lance.dataset(clone).to_table())
    lance.dataset(clone).delete("a = 100")
    assert_tables_equal(lance_spark.open(clone).to_table(), lance.dataset(clone).to_table())
    assert lance_spark.open(uri).count_rows() == 15
    scan = pickle.loads(pickle.dumps(lance_spark.open(clone).plan(with_row_id=True)))
    found = [batch for fragment in lance_spark.open(clone).fragments for batch in scan.read([fragment])]
    expected = lance.dataset(clone).scanner(with_row_id=True).to_table()
    assert_tables_equal(pa.Table.from_batches(found), expected)


def moved_to_base(uri: str, base: BasePath) -> None:
    """Rewrites version 1 so that its data files lie under `base`."""
    location = TableLocation(uri)
    file = location.history.load_latest()
    fragments = [
        replace(fragment, files=tuple(replace(data_file, base_id=base.id) for data_file in fragment.files))
        for fragment in file.manifest.fragments
    ]
    manifest = replace(
        file.manifest,
        fragments=FragmentList(fragment.to_proto() for fragment in fragments),
        base_paths=(base,) if base.path else (),
        reader_flags=16,
        writer_flags=16,
    )
    location.store.put("_versions/18446744073709551614.manifest", ManifestFile(manifest, file.transaction).encode())


@pytest.mark.parametrize("is_dataset_root", [True, False])
@pytest.mark.parametrize("remote", [True, False])
def test_data_files_in_another_store(tmp_path: Path, is_dataset_root: bool, remote: bool) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1, 2, 3), uri, max_rows_per_file=2)
    target = f"memory://base-{uuid.uuid4().hex}" if remote else str(tmp_path / "elsewhere")
    store = open_store(target)
    for path in (tmp_path / "t" / "data").iterdir():
        store.put(f"data/{path.name}" if is_dataset_root else path.name, path.read_bytes())
        path.unlink()
    moved_to_base(uri, BasePath(BaseId(3), target, is_dataset_root, name="cold"))
    dataset = lance_spark.open(uri)
    assert dataset.to_table() == rows(1, 2, 3)
    assert dataset.take([2])["a"].to_pylist() == [3]
    again = lance_spark.write(rows(4), uri, mode="append")
    assert again.to_table() == rows(1, 2, 3, 4)
    assert again.manifest.base_paths[0].name == "cold"
    if not remote:
        assert_tables_equal(lance.dataset(uri).to_table(), rows(1, 2, 3, 4))


def test_a_base_that_the_manifest_does_not_have_is_corrupt(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri)
    moved_to_base(uri, BasePath(BaseId(3), "", True))
    with pytest.raises(CorruptFileError, match="base path 3"):
        lance_spark.open(uri).to_table()


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = lance_spark.write(rows(1, 2), "t").plan()
    fragments = lance_spark.open("t").fragments
    data = pickle.dumps(plan)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    for scan in (plan, pickle.loads(data)):
        assert [batch.num_rows for fragment in fragments for batch in scan.read([fragment])] == [2]


def test_bases_open_their_stores_where_they_are_used(tmp_path: Path) -> None:
    bases = Bases(open_store(str(tmp_path)), (BasePath(BaseId(0), "nonsense-scheme://x", True),))
    copy = pickle.loads(pickle.dumps(bases))
    assert copy.root.uri == str(tmp_path)
