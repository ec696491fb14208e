"""Field ids are not given twice: by what versions before tell, and by what a manifest remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.manifest_file import ManifestFile
from tests.support.column_tables import checked, make, rows


def remembering(uri: str, largest: int | None, flags: int = FeatureFlag.NON_REUSABLE_FIELD_IDS) -> str:
    """The table with this flag and this member in the manifest of its newest version."""
    dataset = lance_spark.open(uri)
    path = dataset.location.at(dataset.version)
    manifest = replace(
        path.manifest,
        writer_flags=path.manifest.writer_flags | flags,
        max_allocated_field_id=largest,
    )
    name = f"{(1 << 64) - 1 - dataset.version:020d}.manifest"
    (Path(uri) / "_versions" / name).write_bytes(ManifestFile(manifest, path.transaction).encode())
    return uri


def test_a_table_that_remembers(tmp_path: Path) -> None:
    uri = remembering(make(tmp_path), 50)
    dataset = lance_spark.open(uri).add_columns(pa.field("n", pa.int8()))
    assert (dataset.lance_schema.fields[-1].id, dataset.manifest.max_allocated_field_id) == (51, 51)
    dataset = dataset.drop_columns(["n"])
    assert dataset.manifest.max_allocated_field_id == 51
    lance.dataset(uri).add_columns(pa.field("n", pa.int8()))
    dataset = checked(uri).delete("a = 0").alter_column("a", data_type=pa.decimal128(25, 0))
    assert [field.id for field in dataset.lance_schema.fields if field.name in ("a", "n")] == [53, 52]
    dataset = lance_spark.write(rows(), uri, mode="overwrite")
    assert [field.id for field in dataset.lance_schema.walk()] == list(range(54, 63))
    dataset = dataset.restore(3)
    assert dataset.manifest.max_allocated_field_id == 62
    assert dataset.manifest.writer_flags & FeatureFlag.NON_REUSABLE_FIELD_IDS
    assert not dataset.manifest.reader_flags & FeatureFlag.NON_REUSABLE_FIELD_IDS
    checked(uri)
    lance.write_dataset(rows(), uri, mode="overwrite")
    assert min(field.id for field in checked(uri).lance_schema.walk()) == 63


@pytest.mark.parametrize(("largest", "flags"), [(None, FeatureFlag.NON_REUSABLE_FIELD_IDS), (9, 0)])
def test_half_a_memory_is_corruption(tmp_path: Path, largest: int | None, flags: int) -> None:
    uri = remembering(make(tmp_path), largest, flags)
    with pytest.raises(CorruptFileError):
        lance_spark.open(uri)
    with pytest.raises(ValueError, match="corrupt"):
        lance.dataset(uri)


def test_versions_before_tell_what_was_given(tmp_path: Path) -> None:
    uri = make(tmp_path)
    lance.dataset(uri).add_columns({"c": "a"})
    given = lance_spark.open(uri).lance_schema.max_field_id
    lance.dataset(uri).drop_columns(["c"])
    dataset = lance_spark.open(uri)
    assert dataset.lance_schema.max_field_id == given - 1
    assert next_field_id(dataset.location.history, dataset.manifest) == given + 1
    lance.dataset(uri).add_columns(pa.field("z", pa.int8()))
    assert lance_spark.open(uri).lance_schema.max_field_id == given, "the reference gives the id again"


def test_ids_in_data_files_count(tmp_path: Path) -> None:
    uri = make(tmp_path)
    largest = lance_spark.open(uri).lance_schema.max_field_id
    dataset = lance_spark.open(uri).drop_columns(["l", "s"])
    assert dataset.lance_schema.max_field_id == 1
    assert next_field_id(dataset.location.history, dataset.manifest) == largest + 1
