"""Indexes of a kind that only the reference library knows stay alive: here MinHash, for texts that are nearly equal."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.query import MinHashQuery

import lance_spark
from lance_spark.errors import RetryableConflictError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionTask
from lance_spark.table.rows.fragment import FragmentId
from tests.index.builds import both
from tests.support.indexed_partitions import indexed_partitions

LARGE = 1000
"""More rows than any table here has."""


def rows(first: int, num_rows: int) -> pa.Table:
    """Random texts; that of row 40 is that of row 3."""
    draw = random.Random(first)
    texts = [" ".join(f"w{draw.randrange(200)}" for _ in range(30)) for _ in range(num_rows)]
    if first == 0:
        texts[40] = texts[3]
    return pa.table(
        {
            "id": pa.array(range(first, first + num_rows), pa.int64()),
            "t": texts,
            "n": pa.array([number % 5 for number in range(first, first + num_rows)], pa.int64()),
        }
    )


TEXT = rows(0, 60)["t"][3].as_py()


def indexed(uri: str, *, stable: bool = False, version: str = "2.1") -> None:
    """Six fragments that a MinHash and a BTREE index cover, and one that none covers."""
    lance.write_dataset(
        rows(0, 60), uri, max_rows_per_file=10, enable_stable_row_ids=stable, data_storage_version=version
    )
    lance.dataset(uri).create_scalar_index("t", "MINHASHLSH", name="mh")
    lance.dataset(uri).create_scalar_index("n", "BTREE", name="tree")
    lance.write_dataset(rows(60, 5), uri, mode="append")


def similar(uri: str, *, fast: bool = True) -> list[int]:
    """The ids of rows with the text; `fast` asks the index alone."""
    scanner = lance.dataset(uri).scanner(
        columns=["id", "_distance"], nearest=MinHashQuery(TEXT, "t"), limit=2, fast_search=fast
    )
    return sorted(row["id"] for row in scanner.to_table().to_pylist() if row["_distance"] == 0)


def coverage(uri: str, name: str = "mh") -> list[int]:
    (index,) = [index for index in lance_spark.open(uri).indices() if index.name == name]
    return sorted(index.fragment_ids())


def kept(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of fragments that stay."""
    return [message for message in caplog.messages if "are not compacted" in message]


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
def test_compaction_leaves_fragments_that_it_covers(
    tmp_path: Path, stable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path)
    indexed(uri, stable=stable)
    lance.write_dataset(rows(65, 5), uri, mode="append")
    before = lance_spark.open(uri)
    assert before.estimate_compaction(CompactionOptions(LARGE)).kept_fragments == 6
    assert len(before.plan_compaction(CompactionOptions(LARGE)).kept_fragments) == 6
    made = before.compact(target_rows_per_fragment=LARGE)
    assert [fragment.id for fragment in made.fragments][:6] == coverage(uri) == [0, 1, 2, 3, 4, 5]
    assert len(made.fragments) == 7, "the two fragments that it does not cover are one"
    assert similar(uri) == similar(uri, fast=False) == [3, 40]
    (warning,) = kept(caplog)
    assert "6 fragments of" in warning
    assert "'mh' (lance.index.pb.MinHashLshIndexDetails)" in warning
    assert ("defer_index_remap" in warning) is not stable


def test_deferred_compaction_records_where_its_rows_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path)
    indexed(uri)
    lance_spark.open(uri).delete("id = 7")
    assert len(lance_spark.open(uri).compact(target_rows_per_fragment=LARGE, defer_index_remap=True).fragments) == 2
    assert similar(uri) == similar(uri, fast=False) == [3, 40]
    lance_spark.open(uri).optimize_indices()
    lance_spark.open(uri).cleanup()
    assert similar(uri) == [3, 40]
    both(uri, "n = 3", index="tree")
    made = lance_spark.open(uri).delete("id % 5 = 1")
    assert made.compact(target_rows_per_fragment=LARGE).version > made.version, "its fragment sheds the deleted rows"
    assert similar(uri) == similar(uri, fast=False) == [3, 40]
    assert kept(caplog) == []


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
def test_changes_of_rows_and_other_columns_keep_it(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    indexed(uri, stable=stable)
    lance_spark.write(rows(65, 5), uri, mode="append")
    lance_spark.open(uri).delete("id = 5")
    lance_spark.open(uri).update({"n": "n + 1"}, "id IN (8, 9)")
    lance_spark.open(uri).add_columns({"m": "n * 2"})
    lance_spark.open(uri).merge(rows(68, 5).append_column("m", pa.array([1] * 5, pa.int64())), "id")
    lance_spark.open(uri).rename_columns({"n": "number"})
    lance_spark.open(uri).optimize_indices()
    assert coverage(uri) == [0, 1, 2, 3, 4, 5]
    assert similar(uri) == similar(uri, fast=False) == [3, 40]
    lance_spark.open(uri).delete("id = 40")
    assert similar(uri) == similar(uri, fast=False) == [3]
    lance_spark.open(uri).restore(lance_spark.open(uri).version - 1)
    assert similar(uri) == [3, 40]


def test_compaction_of_large_fragments_without_many_deletions_keeps_none_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path)
    indexed(uri)
    assert lance_spark.open(uri).estimate_compaction(CompactionOptions(5)).kept_fragments == 0
    lance_spark.open(uri).compact(target_rows_per_fragment=5)
    assert kept(caplog) == []


def test_index_that_is_built_while_fragments_are_rewritten_keeps_them(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance.write_dataset(rows(0, 60), uri, max_rows_per_file=10)
    base = lance_spark.open(uri)
    results = [base.run_compaction_task(task) for task in base.plan_compaction(CompactionOptions(LARGE)).tasks]
    lance.dataset(uri).create_scalar_index("t", "MINHASHLSH", name="mh")
    with pytest.raises(RetryableConflictError):
        base.commit_compaction(results)
    assert coverage(uri) == [0, 1, 2, 3, 4, 5]
    assert similar(uri) == [3, 40]
    assert len(list((tmp_path / "data").iterdir())) == 6, "what was written is removed"


def test_task_that_would_take_its_rows_is_not_committed(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri)
    base = lance_spark.open(uri)
    task = CompactionTask(base.version, (FragmentId(1), FragmentId(2)), CompactionOptions(LARGE))
    with pytest.raises(UnsupportedFeatureError, match=r"'mh'.*compact with defer_index_remap, drop the index first"):
        base.commit_compaction([base.run_compaction_task(task)])
    assert similar(uri) == [3, 40]


def test_upgrade_of_files_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri, version="2.0")
    with pytest.raises(UnsupportedFeatureError, match=r"not upgraded: .*'mh'.*drop the index first"):
        lance_spark.open(uri).upgrade_files("2.2")
    assert similar(uri) == [3, 40]
    lance_spark.open(uri).drop_index("mh")
    lance_spark.open(uri).upgrade_files("2.2")


def test_newer_version_of_a_kind_is_unknown_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path)
    lance.write_dataset(rows(0, 60), uri, max_rows_per_file=10).create_scalar_index("n", "ZONEMAP", name="zones")
    (index,) = lance_spark.open(uri).indices()
    newer = type(index).from_bytes(index.to_bytes())
    newer.message.index_version = 9
    lance_spark.open(uri).commit_indices([newer])
    assert len(lance_spark.open(uri).compact(target_rows_per_fragment=LARGE).fragments) == 6
    assert any("'zones'" in warning for warning in kept(caplog))


def test_partitions_keep_it_each_on_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = indexed_partitions(tmp_path, rows(0, 60), "n", {"t": "MINHASHLSH"})
    paths = [path for path in tmp_path.iterdir() if path.name.endswith("$dataset")]
    changed = dataset.append(rows(60, 10)).delete("id % 4 = 1")
    made = changed.compact(target_rows_per_fragment=LARGE)
    assert isinstance(made, PartitionedDataset)
    assert made.count_rows() == changed.count_rows()
    found = [number for path in paths for number in similar(str(path))]
    assert sorted(found) == [3, 40]
    assert len(kept(caplog)) == len(paths)
