"""Estimates of compactions, beside what the reference library does to the same table."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.maintenance.compaction_options import CompactionOptions


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Fragments of 10, 10, 100, 5 and 100 rows; 40 rows of the last one are deleted."""
    root = str(tmp_path / "t")
    first = 0
    for count in (10, 10, 100, 5, 100):
        lance.write_dataset(pa.table({"id": range(first, first + count)}), root, mode="append")
        first += count
    lance.dataset(root).delete("id >= 185")
    return root


@pytest.mark.parametrize("target", [7, 20, 100, 1000])
def test_estimate_is_what_pylance_does(uri: str, target: int, tmp_path: Path) -> None:
    found = lance_spark.open(uri).estimate_compaction(CompactionOptions(target_rows_per_fragment=target))
    copy = shutil.copytree(uri, tmp_path / "copy")
    metrics = lance.dataset(copy).optimize.compact_files(target_rows_per_fragment=target)
    # The reference library counts deletion files too.
    assert (found.fragments_removed, found.fragments_added) == (metrics.fragments_removed, metrics.fragments_added)
    assert found.files_removed == found.fragments_removed
    assert found.files_added == found.fragments_added


def test_estimate_counts_small_fragments_rows_and_bytes(uri: str) -> None:
    dataset = lance_spark.open(uri)
    found = dataset.estimate_compaction(CompactionOptions(target_rows_per_fragment=50))
    # The fragment of 5 rows is joined with the last one, which sheds its deleted rows.
    assert (found.small_fragments, found.fragments_removed, found.fragments_added) == (3, 4, 2)
    assert (found.rows_rewritten, found.deleted_rows_removed) == (85, 40)
    files = [lance.dataset(uri).get_fragments()[place].metadata.files[0].path for place in (0, 1, 3, 4)]
    assert found.bytes_rewritten == sum((Path(uri) / "data" / name).stat().st_size for name in files)
    assert lance_spark.open(uri).version == dataset.version


def test_small_fragments_excludes_files_that_are_full_by_bytes(uri: str) -> None:
    options = CompactionOptions(target_rows_per_fragment=1000, max_bytes_per_file=1)
    assert lance_spark.open(uri).estimate_compaction(options).small_fragments == 0
