"""A version of a table keeps its partitions open between reads: what others commit is in the newest version only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import LanceError
from lance_spark.partitioned import table as partitioned_table
from lance_spark.partitioned.dataset import PartitionedDataset, create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.reading.opened_version import OpenedVersion
from lance_spark.table.reading.reader import ScanReader

BEFORE = [0, 1, 2, 3, 4, 5]


def texts(*ids: int) -> pa.Table:
    """Rows that all have the word "word"; the partition is the id modulo 3."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": pa.array([number % 3 for number in ids], pa.int32()),
            "s": pa.array([f"word w{number}" for number in ids], pa.string()),
        }
    )


@pytest.fixture
def dataset(tmp_path: Path) -> PartitionedDataset:
    made = create_partitioned_dataset(str(tmp_path), texts().schema, [PartitionBy("p", ("p",), Identity())])
    made.append(texts(*BEFORE)).create_scalar_index("s", "inverted", "by_s")
    return opened(tmp_path)


def opened(path: Path) -> PartitionedDataset:
    found = lance_spark.open(path)
    assert isinstance(found, PartitionedDataset)
    return found


def found(dataset: PartitionedDataset) -> list[int]:
    """The ids that searches and scans find."""
    searched = sorted(dataset.search("word", columns=["id"])["id"].to_pylist())
    assert sorted(dataset.to_table(["id"])["id"].to_pylist()) == searched
    assert sorted(dataset.to_table(["id"], filter="s LIKE 'word%'")["id"].to_pylist()) == searched
    for number in searched:
        assert dataset.search(f"w{number}", columns=["id"])["id"].to_pylist() == [number]
    return searched


CHANGES: dict[str, tuple[Callable[[PartitionedDataset], object], list[int]]] = {
    "appended": (lambda other: other.append(texts(6, 7)), [*BEFORE, 6, 7]),
    "deleted rows": (lambda other: other.delete("id = 4"), [0, 1, 2, 3, 5]),
    "dropped partition": (lambda other: other.delete("p = 1"), [0, 2, 3, 5]),
    "overwritten partition": (
        lambda other: other.overwrite(texts(7, 10), only_written_partitions=True),
        [0, 2, 3, 5, 7, 10],
    ),
    "overwritten": (lambda other: other.overwrite(texts(8)), [8]),
    "dropped and made again": (lambda other: other.delete("p = 1").append(texts(13)), [0, 2, 3, 5, 13]),
    "indexes built again": (lambda other: other.optimize_indices(), BEFORE),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_writer_commits_between_two_searches(tmp_path: Path, dataset: PartitionedDataset, name: str) -> None:
    change, after = CHANGES[name]
    assert found(dataset) == BEFORE
    change(opened(tmp_path))
    assert found(dataset) == BEFORE
    assert found(dataset.newest()) == after
    assert found(opened(tmp_path)) == after
    assert found(dataset) == BEFORE


@pytest.mark.parametrize("name", CHANGES)
def test_files_are_removed_between_two_searches(tmp_path: Path, dataset: PartitionedDataset, name: str) -> None:
    change, after = CHANGES[name]
    assert found(dataset) == BEFORE
    change(opened(tmp_path))
    opened(tmp_path).cleanup(older_than=timedelta(0), delete_unverified=True)
    try:
        still = found(dataset)
    except LanceError:
        still = BEFORE
    assert still == BEFORE
    assert found(dataset.newest()) == after


def test_partition_without_a_version_is_read_as_it_is(tmp_path: Path, dataset: PartitionedDataset) -> None:
    assert found(dataset) == BEFORE
    lance.dataset(str(tmp_path / "__manifest")).update({"read_version": "NULL"})
    following = opened(tmp_path)
    assert found(following) == BEFORE
    (partition,) = following.partitions("p = 1")
    lance.write_dataset(texts(7), f"{tmp_path}/{partition.location}", mode="append")
    assert found(following) == [*BEFORE, 7]


def test_many_partitions_are_not_all_kept(dataset: PartitionedDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_table, "_MAX_OPENED", 2)
    assert found(dataset) == found(dataset) == BEFORE
    assert len(dataset._opened) == 2


def test_each_partition_is_closed_before_the_next_is_read(
    dataset: PartitionedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions: list[OpenedVersion] = []
    read, still_open = ScanReader.read, list[int]()

    def noted(self: ScanReader, *arguments: Any) -> Any:
        if self.version.bases.split_key is not None:  # Of a partition, not of the catalog.
            still_open.append(sum(version.held_bytes > 0 for version in versions))
            versions.append(self.version)
        return read(self, *arguments)

    monkeypatch.setattr(ScanReader, "read", noted)
    assert sorted(dataset.to_table(["id"])["id"].to_pylist()) == BEFORE
    assert still_open == [0, 0, 0]
    assert not any(version.held_bytes for version in versions)
    monkeypatch.setattr(OpenedVersion, "close", lambda self: None)
    versions.clear()
    dataset.to_table(["id"])
    assert still_open == [0, 0, 0, 0, 1, 2]
