"""Feature flags of an append: those of the version before, and of the new fragments."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.operations import manifest_builder
from tests.support.manifest_surgery import edit_manifest

ROWS = pa.table({"a": range(4)})
DELETION = FeatureFlag.DELETION_FILES


def flags(uri: str) -> FeatureFlag:
    manifest = lance_spark.open(uri).manifest
    assert manifest.reader_flags == manifest.writer_flags
    return FeatureFlag(manifest.reader_flags)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=2)
    return uri


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the fragments that are looked at for their flags."""
    ids: list[int] = []
    inner = manifest_builder.lineage_fields

    def counted(message: table_pb2.DataFragment) -> frozenset[int]:
        ids.append(message.id)
        return inner(message)

    monkeypatch.setattr(manifest_builder, "lineage_fields", counted)
    return ids


def test_only_new_fragments_are_looked_at_after_a_version_of_our_own(uri: str, looked_at: list[int]) -> None:
    lance_spark.write(ROWS, uri, mode="append")
    assert looked_at == [0, 1, 2]
    lance_spark.write(ROWS, uri, mode="append")
    assert looked_at == [0, 1, 2, 3]
    lance.write_dataset(ROWS, uri, mode="append")
    lance_spark.write(ROWS, uri, mode="append")
    assert looked_at[4:] == [0, 1, 2, 3, 4, 5]


def test_flags_follow_deletions(uri: str) -> None:
    lance_spark.open(uri).delete("a = 1")
    assert flags(uri) & DELETION
    for _ in range(2):
        lance_spark.write(ROWS, uri, mode="append")
        assert flags(uri) & DELETION
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    lance_spark.write(ROWS, uri, mode="append")
    assert not flags(uri) & DELETION
    lance_spark.write(ROWS, uri, mode="append")
    assert not flags(uri) & DELETION
    assert lance.dataset(uri).count_rows() == 19


def test_flags_that_another_writer_forgot_are_found(uri: str) -> None:
    lance.dataset(uri).delete("a = 1")

    def forget(manifest: table_pb2.Manifest) -> None:
        manifest.reader_feature_flags = manifest.writer_feature_flags = 0

    edit_manifest(Path(uri), forget)
    lance_spark.write(ROWS, uri, mode="append")
    assert flags(uri) & DELETION


def test_spilled_lineage_is_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(1000)}), uri, enable_stable_row_ids=True, data_storage_version="2.1")
    lance.dataset(uri).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    for number in range(3):
        lance.dataset(uri).update({"a": "a + 1"}, where=f"a % {number + 3} = 1")
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    for _ in range(2):
        lance_spark.write(ROWS, uri, mode="append")
        assert lance_spark.open(uri).manifest.reader_flags & FeatureFlag.SPILLED_ROW_LINEAGE
    assert lance.dataset(uri).count_rows() == 1008
