"""What is kept of immutable objects: bounded, never shared with other rights, never wrong."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.storage import cache, open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.cache import Cache, Identified, cached_by_etag, cached_by_path
from lance_spark.storage.faults import FaultStore
from lance_spark.storage.local.store import LocalStore
from lance_spark.table.location import TableLocation
from tests.support.counting_store import CountingStore
from tests.support.forked import fork
from tests.support.moto import S3Bucket


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    own = Cache(64 << 20)
    monkeypatch.setattr(cache, "shared", own)
    return own


class Counting(CountingStore):
    """A counted store that is known by the name of the one inside."""

    @property
    def identity(self) -> object:
        assert isinstance(self._inner, Identified)
        return self._inner.identity

    @property
    def etags_are_free(self) -> bool:
        assert isinstance(self._inner, Identified)
        return self._inner.etags_are_free

    def etag(self, path: str) -> object:
        assert isinstance(self._inner, Identified)
        return self._inner.etag(path)


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def test_the_least_recently_used_goes_first() -> None:
    kept = Cache(100)
    for name in "abcde":
        kept.put(name, name, 20)
    assert kept.get("a") == "a"
    kept.put("f", "f", 30)
    assert [name for name in "abcdef" if kept.get(name)] == ["a", "d", "e", "f"]
    assert kept.num_bytes == 90
    kept.put("g", "g", 76)
    assert kept.get("g") is None, "one value must not push out all others"
    kept.put("a", "A", 50)
    assert (kept.get("a"), kept.num_bytes) == ("A", 100)
    kept.resize(60)
    assert [name for name in "abcdef" if kept.get(name)] == ["a"]
    kept.resize(0)
    kept.put("x", "x", 1)
    assert (kept.get("x"), kept.num_bytes) == (None, 0)
    kept.resize(10)
    kept.put("x", "x", 1)
    kept.clear()
    assert (kept.get("x"), kept.num_bytes) == (None, 0)


def test_many_threads() -> None:
    kept = Cache(1000)
    failures = []

    def work(seed: int) -> None:
        for number in range(3000):
            key = (seed * number) % 97
            found = kept.get(key)
            if found is not None and found != key:
                failures.append((key, found))
            kept.put(key, key, key % 30)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert 0 <= kept.num_bytes <= 1000
    for key in range(97):
        kept.put(key, key, 0)
    assert kept.num_bytes == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
def test_a_child_begins_with_an_empty_cache(own_cache: Cache) -> None:
    own_cache.put("a", 1, 10)
    with own_cache._lock:
        # The child must not wait for a lock that nobody of its own holds.
        child = fork(lambda report: report(own_cache.num_bytes + (own_cache.get("a") is not None)))
        assert child.join() == 0
    assert child.acknowledged == [0]
    assert own_cache.get("a") == 1


def make(value: str, calls: list[str]) -> Callable[[], tuple[str, int]]:
    def run() -> tuple[str, int]:
        calls.append(value)
        return value, len(value)

    return run


def test_stores_without_a_name_are_left_out() -> None:
    calls: list[str] = []
    inner = open_store(f"memory://{uuid.uuid4().hex}")
    inner.put("a", b"1")
    for store in (FaultStore(inner, []), CountingStore(inner)):
        for _ in range(2):
            assert cached_by_etag(store, "kind", "a", "stamp", make("x", calls)) == "x"
            assert cached_by_path(store, "kind", "a", 1, make("x", calls)) == "x"
    assert len(calls) == 8


def test_what_tells_values_apart(s3_bucket: S3Bucket) -> None:
    calls: list[str] = []
    options = s3_bucket.storage_options
    one, same = (open_store("s3://lance-tests/x", options) for _ in range(2))
    others = [
        open_store("s3://lance-tests/y", options),
        open_store("s3://lance-tests/x", options | {"aws_access_key_id": "somebody-else"}),
    ]
    assert cached_by_etag(one, "kind", "a", "1", make("first", calls)) == "first"
    assert cached_by_etag(same, "kind", "a", "1", make("again", calls)) == "first"
    for other in others:
        assert cached_by_etag(other, "kind", "a", "1", make("other", calls)) == "other"
    assert cached_by_etag(one, "kind", "a", "2", make("new", calls)) == "new"
    assert cached_by_etag(one, "kind", "b", "1", make("path", calls)) == "path"
    assert cached_by_etag(one, "other kind", "a", "1", make("kind", calls)) == "kind"
    assert cached_by_etag(one, "kind", "a", None, make("unknown", calls)) == "unknown"
    assert cached_by_path(one, "kind", "c", 1, make("named", calls)) == "named"
    assert cached_by_path(same, "kind", "c", 1, make("again", calls)) == "named"
    assert cached_by_path(same, "kind", "c", 2, make("details", calls)) == "details"


def test_an_error_is_not_kept() -> None:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    store.put("a", b"1")

    def fail() -> tuple[str, int]:
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        cached_by_path(store, "kind", "a", 1, fail)
    assert cached_by_path(store, "kind", "a", 1, lambda: ("fine", 1)) == "fine"


def counted(uri: str, options: dict[str, str] | None = None) -> tuple[TableLocation, Counting]:
    location = TableLocation(uri, options)
    store = Counting(location.store)
    location.store = store
    location.history = type(location.history)(store)
    return location, store


def test_the_newest_manifest_is_read_once(s3_bucket: S3Bucket) -> None:
    uri, options = s3_bucket.folder(), s3_bucket.storage_options
    for value in range(3):
        lance_spark.write(rows(value), uri, mode="append", storage_options=options)
    location, store = counted(uri, options)
    first = location.latest()
    assert dict(store.reset().calls) == {"list": 1, "read": 1}
    assert location.latest() is first
    assert dict(store.reset().calls) == {"list": 1}, "which one is the newest is asked each time"
    lance_spark.write(rows(9), uri, mode="append", storage_options=options)
    newest = location.latest()
    assert newest is not None
    assert newest.version == 4
    dataset = lance_spark.open(uri, storage_options=options)
    dataset.versions()
    store.reset()
    assert [entry.version for entry in dataset.versions()] == [1, 2, 3, 4]
    assert location.as_of(dataset.timestamp).manifest.version == 4
    assert dict(store.reset().calls) == {"list": 1}


def test_ends_of_files_and_deletions_are_read_once(s3_bucket: S3Bucket, own_cache: Cache) -> None:
    uri, options = s3_bucket.folder(), s3_bucket.storage_options
    lance_spark.write(rows(*range(100)), uri, storage_options=options)
    lance_spark.open(uri, storage_options=options).delete("a < 50")

    def read() -> tuple[list[int], dict[str, int]]:
        location, store = counted(uri, options)
        manifest = location.latest()
        assert manifest is not None
        store.reset()
        found = lance_spark.Dataset(location, manifest).to_table()["a"].to_pylist()
        return found, dict(store.reset().calls)

    expected = list(range(50, 100))
    own_cache.clear()
    assert read() == (expected, {"read": 1, "read_range": 1}), "the end of a small file holds its column too"
    assert read() == (expected, {})


def remove(store: ObjectStore) -> None:
    for entry in list(store.list("", recursive=True)):
        store.delete(entry.path)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["memory", "local", "s3"])
def test_a_table_that_is_removed_and_made_anew(place: str, tmp_path: Path, s3_bucket: S3Bucket) -> None:
    """Same path, same version, same names and sizes of manifests: never the old content."""
    options = s3_bucket.storage_options if place == "s3" else None
    uri = {
        "memory": f"memory://{uuid.uuid4().hex}",
        "local": str(tmp_path / "t"),
        "s3": s3_bucket.folder(),
    }[place]
    for number in range(6):
        lance_spark.write(rows(10 + number, 1, 2), uri, storage_options=options)
        for _ in range(3):
            dataset = lance_spark.open(uri, storage_options=options)
            assert dataset.to_table()["a"].to_pylist() == [10 + number, 1, 2]
            assert (
                lance_spark.open(uri, version=1, storage_options=options).to_table()["a"].to_pylist()[0] == 10 + number
            )
            assert (
                dataset.versions()[0].transaction == dataset.location.history.transaction(dataset.location.at(1)).uuid
            )
        dataset.delete("a = 1")
        assert lance_spark.open(uri, storage_options=options).to_table()["a"].to_pylist() == [10 + number, 2]
        remove(TableLocation(uri, options).store)
        with pytest.raises(lance_spark.NotFoundError):
            lance_spark.open(uri, storage_options=options)
        with pytest.raises(lance_spark.NotFoundError):
            lance_spark.open(uri, version=1, storage_options=options)


def test_a_young_local_file_has_no_stamp(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), open_store(str(tmp_path))._root, {})  # type: ignore[attr-defined]
    store.put("a", b"1")
    assert store.etag("a") is None, "another file could be written with the same inode, size and times"
    old = time.time() - 10
    os.utime(tmp_path / "a", (old, old))
    first = store.etag("a")
    assert first is not None
    assert [entry.etag for entry in store.list("")] == [first]
    store.put("a", b"2")
    os.utime(tmp_path / "a", (old, old))
    assert store.etag("a") not in (None, first), "the time of a change of the inode cannot be set back"


def test_stamps_of_listings_and_of_objects_agree(s3_bucket: S3Bucket) -> None:
    for store in (
        open_store(f"memory://{uuid.uuid4().hex}"),
        open_store(s3_bucket.folder(), s3_bucket.storage_options),
    ):
        assert isinstance(store, Identified)
        seen = set()
        for content in (b"12", b"34", b"56"):
            store.put("folder/a", content)
            (listed,) = store.list("folder")
            assert listed.etag == store.etag("folder/a") is not None
            seen.add(listed.etag)
        assert len(seen) == 3
        with pytest.raises(lance_spark.NotFoundError):
            store.etag("folder/b")
