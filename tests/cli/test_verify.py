"""What `verify` finds where a manifest contradicts the files, and that it finds nothing in sound tables."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyroaring
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.cli.main import main
from lance_spark.cli.verify import wrong_coverage
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence
from tests.support.arrays import leaves_table, nested_table
from tests.support.manifest_surgery import edit_manifest


def table(path: Path, **options: object) -> lance.LanceDataset:
    rows = pa.table({"a": range(100), "s": [f"x{i}" for i in range(100)]})
    return lance.write_dataset(rows, str(path), max_rows_per_file=50, **options)


def findings(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["verify", str(path)]) == 1
    return capsys.readouterr().out


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_all_types_are_sound(tmp_path: Path, version: str) -> None:
    leaves = leaves_table(50, 0.0 if version == "legacy" else 0.2)
    nested = nested_table(50, 0.2, maps=version == "2.2", null_structs=version not in ("2.0", "legacy"))
    if version == "legacy":
        leaves = leaves.select(["int32", "float64", "string", "timestamp_us_utc", "fixed_size_list"])
    lance.write_dataset(leaves, str(tmp_path / "leaves"), data_storage_version=version)
    assert main(["verify", str(tmp_path / "leaves")]) == 0
    if version != "legacy":
        lance.write_dataset(nested, str(tmp_path / "nested"), data_storage_version=version)
        assert main(["verify", str(tmp_path / "nested")]) == 0


@pytest.mark.parametrize("stable", [False, True])
def test_changed_table_is_sound(tmp_path: Path, stable: bool) -> None:
    dataset = table(tmp_path / "t", enable_stable_row_ids=stable)
    dataset.alter_columns({"path": "a", "data_type": pa.int32(), "name": "b"})
    dataset.create_scalar_index("b", "BTREE")
    lance.write_dataset(dataset.to_table().slice(0, 5), str(tmp_path / "t"), mode="append")
    dataset = lance.dataset(str(tmp_path / "t"))
    dataset.optimize.optimize_indices()
    dataset.update({"s": "'new'"}, where="b = 3")
    dataset.add_columns({"c": "b + 1"})
    lance_spark.open(str(tmp_path / "t")).upgrade_files("2.2")
    assert main(["verify", str(tmp_path / "t")]) == 0


def test_other_type_than_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path / "t")

    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = "double"

    edit_manifest(tmp_path / "t", edit)
    assert "column 'a' (field 0) is int64 in the file, the table says double" in findings(tmp_path / "t", capsys)


def test_row_versions_after_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path / "t", enable_stable_row_ids=True)

    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.version = 1
        fragment = manifest.fragments[0]
        fragment.inline_created_at_versions = RowDatasetVersionSequence.uniform(50, 9).to_bytes()
        fragment.inline_last_updated_at_versions = RowDatasetVersionSequence.uniform(49, 1).to_bytes()

    edit_manifest(tmp_path / "t", edit)
    found = findings(tmp_path / "t", capsys)
    assert "fragment 0: rows were created in version 9, after version 1 of the table" in found
    assert "fragment 0: the versions in which rows were last changed" in found


def test_overlapping_and_future_indexes(tmp_path: Path) -> None:
    dataset = table(tmp_path / "t")
    dataset.create_scalar_index("a", "BTREE")
    opened = lance_spark.open(str(tmp_path / "t"))
    [index] = opened.indices()
    other = table_pb2.IndexMetadata()
    other.CopyFrom(index.message)
    other.fragment_bitmap = pyroaring.BitMap([1]).serialize()
    other.dataset_version = 99
    assert list(wrong_coverage([index, IndexMetadata(other)], 2)) == [
        ("a_idx", "it was built at version 99, after version 2"),
        ("a_idx", "several of its segments cover fragments [1]"),
    ]
    assert main(["verify", str(tmp_path / "t")]) == 0
