"""A version that a streaming query still has to read is kept with all later ones, of tables of both kinds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.refs.tagging import hold_name, hold_versions, release_versions

NOW = timedelta(0)
HOLD = hold_name("query", "0")


def append(dataset: Any, count: int) -> Any:
    """The table after `count` more versions."""
    rows = dataset.to_table().slice(0, 1)
    for _ in range(count):
        dataset = dataset.append(rows)
    return dataset


def versions(dataset: Any) -> list[int]:
    return sorted(item.version for item in dataset.versions_location.history.locations())


@pytest.mark.slow
def test_cleanup_keeps_versions_from_the_hold_on(dataset: Any) -> None:
    newest = append(dataset, 5)
    location = newest.versions_location
    first = newest.version - 3
    assert hold_versions(location, HOLD, first) == first
    newest.cleanup(older_than=NOW)
    assert versions(newest) == list(range(first, newest.version + 1))
    assert hold_versions(location, HOLD, first + 2) == first + 2
    newest.cleanup(older_than=NOW)
    assert versions(newest) == list(range(first + 2, newest.version + 1))
    assert release_versions(location, "query") == [HOLD]
    newest.cleanup(older_than=NOW)
    assert versions(newest) == [newest.version]


def test_hold_of_a_removed_version_takes_the_oldest_after_it(dataset: Any) -> None:
    newest = append(dataset, 3)
    newest.cleanup(older_than=NOW, keep_versions=2)
    assert hold_versions(newest.versions_location, HOLD, 1) == newest.version - 1


def test_release_keeps_the_tags_of_other_queries(dataset: Any) -> None:
    location = dataset.versions_location
    hold_versions(location, hold_name("a", "0"), dataset.version)
    hold_versions(location, hold_name("a", "1"), dataset.version)
    hold_versions(location, hold_name("a-b", "0"), dataset.version)
    assert release_versions(location, "a") == [hold_name("a", "0"), hold_name("a", "1")]
    assert list(location.refs.tags()) == [hold_name("a-b", "0")]


def test_pylance_keeps_the_held_version(tmp_path: Any) -> None:
    uri = str(tmp_path / "table")
    for number in range(4):
        lance_spark.write(pa.table({"a": [number]}), uri, mode="append" if number else "create")
    hold_versions(lance_spark.open(uri).location, HOLD, 2)
    found = lance.dataset(uri)
    found.cleanup_old_versions(older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False)
    assert [item["version"] for item in found.versions()] == [2, 4]
    assert lance_spark.open(uri, version=2).count_rows() == 2
