"""Many writers of one table at the same time: one winner for each version, every append present exactly once.

`make soak` runs more rounds (LANCE_RACE_ROUNDS).
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, RetryableConflictError
from lance_spark.storage import open_manifest_table, open_store
from lance_spark.storage.base import PutResult
from lance_spark.storage.manifest_table import ManifestEntry
from lance_spark.table.location import TableLocation
from tests.support.moto import S3Bucket
from tests.support.threads import all_at_once

WRITERS = 32
ROUNDS = int(os.environ.get("LANCE_RACE_ROUNDS", "1"))
PLACES = ("memory", "local", "s3", "dynamodb")


class Place:
    """Where a race takes place: URI and storage options of a table that is not there yet."""

    def __init__(self, uri: str, options: dict[str, str] | None = None) -> None:
        self.uri = uri
        self.options = options

    def append(self, *values: int) -> int:
        """The version made. A writer that is unlucky too often in a row is told so, and tries again."""
        table = pa.table({"a": pa.array(values, pa.int64())})
        while True:
            try:
                return lance_spark.write(table, self.uri, mode="append", storage_options=self.options).version
            except RetryableConflictError:
                continue

    def values(self) -> list[int]:
        return sorted(lance_spark.open(self.uri, storage_options=self.options).to_table()["a"].to_pylist())


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "memory":
        yield Place(f"memory://races-{uuid.uuid4().hex}")
    elif request.param == "local":
        yield Place(str(tmp_path / "t"))
    else:
        bucket: S3Bucket = request.getfixturevalue("s3_bucket")
        options = dict(bucket.storage_options)
        if request.param == "s3":
            yield Place(bucket.folder(), options)
        else:
            name = bucket.manifest_table()
            uri = f"s3+ddb://{bucket.name}/{uuid.uuid4().hex}?ddbTableName={name}"
            yield Place(uri, options | {"dynamodb_endpoint": bucket.endpoint})


def is_slow(place: Place) -> bool:
    """The test server answers one request at a time."""
    return place.options is not None


def test_one_of_32_creations_wins(place: Place) -> None:
    entries = open_manifest_table(place.uri, place.options)
    store = open_store(place.uri, place.options)
    for version in range(1, 1 + ROUNDS * (2 if is_slow(place) else 8)):
        path = f"_versions/{version}.manifest"

        def create(writer: int, version: int = version, path: str = path) -> PutResult:
            if entries is not None:
                return entries.create(ManifestEntry(version, path, writer))
            return store.put_if_absent(path, b"%d" % writer)

        results = all_at_once(create, WRITERS)
        (winner,) = [writer for writer, result in enumerate(results) if result is PutResult.CREATED]
        assert Counter(results) == {PutResult.CREATED: 1, PutResult.EXISTS: WRITERS - 1}
        if entries is not None:
            assert entries.get(version) == ManifestEntry(version, path, winner)
        else:
            assert store.read(path).to_pybytes() == b"%d" % winner


@pytest.mark.slow
def test_32_writers_append(place: Place) -> None:
    writers = 8 if is_slow(place) and ROUNDS == 1 else WRITERS
    for round_ in range(ROUNDS):
        versions = all_at_once(lambda writer, first=1000 * round_: place.append(first + writer, -writer), writers)
        assert sorted(versions) == list(range(round_ * writers + 1, (round_ + 1) * writers + 1))
    expected = [value for r in range(ROUNDS) for writer in range(writers) for value in (1000 * r + writer, -writer)]
    assert place.values() == sorted(expected)
    location = TableLocation(place.uri, place.options)
    newest = location.latest()
    assert newest is not None
    ids = [fragment.id for fragment in newest.fragments]
    assert sorted(ids) == list(range(writers * ROUNDS))
    made_by = [location.at(version).transaction for version in range(1, newest.version + 1)]
    assert len(set(made_by)) == newest.version
    if not place.uri.startswith("memory"):
        reference = lance.dataset(place.uri, storage_options=place.options)
        assert sorted(reference.to_table()["a"].to_pylist()) == sorted(expected)


@pytest.mark.slow
def test_writers_that_delete_append_and_configure(place: Place) -> None:
    """Each writer deletes its own row and appends another; all at once, and nothing of it is lost."""
    writers = 4 if is_slow(place) else 12
    place.append(*range(writers))

    def work(writer: int) -> None:
        dataset = lance_spark.open(place.uri, storage_options=place.options)
        while True:
            try:
                dataset = dataset.delete(f"a = {writer}")
                break
            except RetryableConflictError:
                dataset = lance_spark.open(place.uri, storage_options=place.options)
        dataset.update_config({f"writer-{writer}": "was here"})
        place.append(100 + writer)

    all_at_once(work, writers)
    assert place.values() == [100 + writer for writer in range(writers)]
    dataset = lance_spark.open(place.uri, storage_options=place.options)
    assert dataset.config == {f"writer-{writer}": "was here" for writer in range(writers)}
    assert dataset.version == 1 + 3 * writers


def test_one_of_many_keeps_the_key(place: Place) -> None:
    """Of writers that change one config entry of the same version, one wins and the others are told of a conflict."""
    place.append(1)
    dataset = lance_spark.open(place.uri, storage_options=place.options)

    def work(writer: int) -> str | None:
        try:
            dataset.update_config({"key": str(writer)})
        except CommitConflictError:
            return None
        return str(writer)

    winners = [winner for winner in all_at_once(work, 6) if winner is not None]
    assert [lance_spark.open(place.uri, storage_options=place.options).config["key"]] == winners


def test_one_of_many_makes_the_tag(place: Place) -> None:
    place.append(1)
    place.append(2)
    dataset = lance_spark.open(place.uri, storage_options=place.options)

    def work(writer: int) -> int | None:
        try:
            return dataset.create_tag("t", 1 + writer % 2).version
        except lance_spark.InvalidInputError:
            return None

    winners = [version for version in all_at_once(work, 6) if version is not None]
    assert [dataset.tags()["t"].version] == winners
