"""`upgrade_files` behaves alike, whether the table has partitions or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.table.rows.fragment import DataFile
from tests.table_verbs.kinds import ROWS, Kind, content


def files(dataset: Any) -> list[DataFile]:
    if not isinstance(dataset, PartitionedDataset):
        return [file for fragment in dataset.fragments for file in fragment.files]
    opened = [dataset.open(partition) for partition in dataset.partitions()]
    return [file for item in opened for fragment in item.manifest.fragments for file in fragment.files]


@pytest.mark.parametrize("old", ["2.0", "2.1"])
def test_upgrade_rewrites_all_files_in_one_version(kind: Kind, old: str) -> None:
    older = replace(kind, file_version=old).create(*ROWS).delete("id = 1")
    assert {file.version.value for file in files(older)} == {old}

    made = older.upgrade_files("2.2", commit_message="newer files")

    kind.check(made, ROWS[1:])
    assert made.version == older.version + 1
    assert made.file_version.value == "2.2"
    assert {file.version.value for file in files(made)} == {"2.2"}
    assert content(kind.open(made, older.version)) == content(older)
    assert made.upgrade_files("2.2").version == made.version
    added = kind.append(made, (6, "new", 60), (7, "a", 70))
    assert {file.version.value for file in files(added)} == {"2.2"}
    kind.check(added, [*ROWS[1:], (6, "new", 60), (7, "a", 70)])


def test_upgrade_to_an_older_version_is_refused(kind: Kind, dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="newer than 2\\.1"):
        dataset.upgrade_files("2.1")
    kind.check(dataset, ROWS)


def test_upgrade_to_an_unknown_version_is_refused(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="unknown file format version"):
        dataset.upgrade_files("1")


def test_progress_counts_fragments(kind: Kind) -> None:
    older = replace(kind, file_version="2.0").create(*ROWS)
    calls: list[tuple[int, int]] = []
    older.upgrade_files(progress=lambda done, total: calls.append((done, total)))
    assert sum(done == total for done, total in calls) == (3 if isinstance(older, PartitionedDataset) else 1)
