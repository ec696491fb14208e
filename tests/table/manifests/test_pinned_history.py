"""Commits on a version that is pinned as the newest: what came after it has no part in them."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import NotFoundError, RetryableConflictError
from lance_spark.storage.base import PutResult
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.writing.modes import APPEND, CREATE
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import commit_append
from tests.support.row_verbs import delete_rows, save


def rows(*values: int) -> RowSource:
    return RowSource.of(pa.table({"a": pa.array(values, pa.int64())}))


def values(uri: str, version: int) -> list[int]:
    own = lance_spark.open(uri, version=version).to_table()["a"].to_pylist()
    assert lance.dataset(uri, version=version).to_table()["a"].to_pylist() == own
    return own


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Version 1 has the rows 1 and 2; version 2, which nobody has named, has 3 too."""
    place = str(tmp_path / "t")
    lance_spark.write(rows(1, 2).batches, place)
    save(TableLocation(place), rows(3), mode=APPEND)
    return place


def test_an_append_builds_on_the_pinned_version(uri: str) -> None:
    made = save(TableLocation(uri).pinned_at(1), rows(4), mode=APPEND)
    assert made.version == 3
    assert values(uri, 3) == [1, 2, 4]
    assert values(uri, 2) == [1, 2, 3]


def test_commits_of_one_writer_follow_each_other(uri: str) -> None:
    table = TableLocation(uri).pinned_at(1)
    first = Dataset(table, table.history.load_latest().manifest).delete("a = 1")
    second = save(table, rows(5), mode=APPEND)
    assert (first.version, second.version) == (3, 4)
    assert values(uri, 3) == [2]
    assert values(uri, 4) == [2, 5]


def test_two_writers_on_one_version_do_not_see_each_other(uri: str) -> None:
    one, other = TableLocation(uri).pinned_at(2), TableLocation(uri).pinned_at(2)
    first, second = save(one, rows(4), mode=APPEND), save(other, rows(5), mode=APPEND)
    assert values(uri, first.version) == [1, 2, 3, 4]
    assert values(uri, second.version) == [1, 2, 3, 5]


def test_a_table_is_created_beside_what_was_left(uri: str) -> None:
    made = save(TableLocation(uri).pinned_at(0), rows(9), mode=CREATE)
    assert made.version == 3
    assert values(uri, 3) == [9]


def test_the_pinned_version_is_gone(uri: str) -> None:
    with pytest.raises(NotFoundError):
        save(TableLocation(uri).pinned_at(7), rows(4), mode=APPEND)


def test_a_number_that_is_taken_meanwhile(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableLocation(uri).pinned_at(1)
    publish = table.history.manifests.publish
    raced = []

    def late(location: ManifestLocation, payload: bytes) -> PutResult:
        if not raced:
            raced.append(save(TableLocation(uri).pinned_at(2), rows(6), mode=APPEND).version)
        return publish(location, payload)

    monkeypatch.setattr(table.history.manifests, "publish", late)
    made = save(table, rows(4), mode=APPEND)
    assert (raced, made.version) == ([3], 4)
    assert values(uri, 4) == [1, 2, 4]
    assert values(uri, 3) == [1, 2, 3, 6]


def test_a_reply_that_is_lost(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableLocation(uri).pinned_at(1)
    publish = table.history.manifests.publish

    def lost(location: ManifestLocation, payload: bytes) -> PutResult:
        publish(location, payload)
        return PutResult.UNKNOWN

    monkeypatch.setattr(table.history.manifests, "publish", lost)
    made = save(table, rows(4), mode=APPEND)
    assert made.version == 3
    assert [version.version for version in lance_spark.open(uri).versions()] == [1, 2, 3]
    assert values(uri, 3) == [1, 2, 4]


def test_a_commit_follows_the_versions_that_lead_to_the_pinned_one(uri: str) -> None:
    first = save(TableLocation(uri).pinned_at(1), rows(4), mode=APPEND)
    save(TableLocation(uri).pinned_at(2), rows(5), mode=APPEND)
    third = save(TableLocation(uri).pinned_at(first.version), rows(6), mode=APPEND)
    assert (first.version, third.version) == (3, 5)
    base = TableLocation(uri).at(1).manifest
    made = delete_rows(TableLocation(uri).pinned_at(third.version), base, "a = 1")
    assert values(uri, made.version) == [2, 4, 6]
    after = save(TableLocation(uri).pinned_at(made.version), rows(7), mode=APPEND)
    moved = delete_rows(TableLocation(uri).pinned_at(after.version), third, "a = 2")
    assert values(uri, moved.version) == [4, 6, 7]


def test_a_version_that_the_pinned_one_was_not_made_of(uri: str) -> None:
    other = TableLocation(uri).at(2).manifest
    aside = save(TableLocation(uri).pinned_at(1), rows(4), mode=APPEND)
    with pytest.raises(RetryableConflictError):
        commit_append(TableLocation(uri).pinned_at(aside.version), other, [])
