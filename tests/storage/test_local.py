from __future__ import annotations

import ctypes
import errno
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import stat
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, StorageError
from lance_spark.storage import open_store
from lance_spark.storage.base import ByteRange, ObjectStore, PutResult, mapped_file, whole_file
from lance_spark.storage.local import in_memory, publish
from lance_spark.storage.local import store as local
from lance_spark.storage.local.store import LocalStore
from lance_spark.storage.meter import READS
from lance_spark.storage.paths import STAGING_PREFIX
from tests.support.process_race import assert_one_of_many_processes_wins
from tests.support.store_contract import StoreContract


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    found = open_store(str(tmp_path / "table"))
    assert isinstance(found, LocalStore)
    return found


class TestLocalStore(StoreContract):
    copies_objects = True

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return open_store(str(tmp_path / "table"))

    def has_flat_names(self, store: ObjectStore) -> bool:
        return False


class TestLocalStoreWithoutMaps(TestLocalStore):
    """File systems, or limits on address space, that do not let files be mapped."""

    @pytest.fixture(autouse=True)
    def no_maps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(in_memory, "_calls", lambda: in_memory._Calls(lambda *_: in_memory._FAILED, lambda *_: 0))


class TestLocalStoreWithoutHardLinks(TestLocalStore):
    @pytest.fixture(autouse=True)
    def no_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if publish._renameat2() is None:
            pytest.skip("this system has no renameat2")
        monkeypatch.setattr(os, "link", _failing(errno.EPERM))


def _failing(number: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def staged(store: LocalStore) -> list[Path]:
    return list(Path(store.uri).rglob(f"{STAGING_PREFIX}*"))


def test_data_files_are_mapped_once_and_sliced_without_a_copy(store: LocalStore) -> None:
    store.put("data/a", bytes(range(256)) * 100)
    first, second = store.read_ranges("data/a", [ByteRange(64, 10), ByteRange(128, 10)])
    assert second.address - first.address == 64
    assert store.read_ranges("data/a", [ByteRange(64, 10)])[0].address == first.address
    assert first.address % 64 == 0
    assert not first.is_mutable


def test_a_mapped_file_is_not_opened_again(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("data/a", bytes(range(256)) * 100)
    [first] = store.read_ranges("data/a", [ByteRange(64, 10)])
    opened: list[str] = []
    monkeypatch.setattr(os, "open", lambda path, *_: opened.append(path))
    before = READS.counts
    [again] = store.read_ranges("data/a", [ByteRange(64, 10)])
    assert again == first
    assert (READS.counts - before).num_bytes == 10
    with pytest.raises(CorruptFileError):
        store.read_ranges("data/a", [ByteRange(25_599, 2)])
    assert opened == []


def test_all_of_a_mapped_file_is_counted_as_what_is_read_of_it(store: LocalStore) -> None:
    store.put("a", b"x" * 1000)
    assert mapped_file(store, "a", 1000, 2, 30) is None
    store.read_ranges("a", [ByteRange(0, 10)])
    before = READS.counts
    found = mapped_file(store, "a", 1000, 2, 30)
    assert found is not None
    assert found.to_pybytes() == b"x" * 1000
    counted = READS.counts - before
    assert (counted.requests, counted.num_bytes) == (2, 30)
    assert mapped_file(store, "a", 999, 2, 30) is None
    store.put("a", b"y" * 1000)
    assert mapped_file(store, "a", 1000, 2, 30) is None


def test_small_objects_are_copied_because_others_may_rewrite_them_in_place(store: LocalStore) -> None:
    store.put("hint", b"12345")
    kept = store.read("hint")
    with open(Path(store.uri) / "hint", "r+b") as file:
        file.truncate(1)
    assert kept.to_pybytes() == b"12345"


def test_a_replaced_file_is_mapped_anew(store: LocalStore) -> None:
    store.put("a", b"first")
    old = store.read_range("a", ByteRange(0, 5))
    open_store(store.uri).put("a", b"other")
    assert store.read_range("a", ByteRange(0, 5)).to_pybytes() == b"other"
    assert old.to_pybytes() == b"first"


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_a_file_that_was_cut_off_is_corrupt(store: LocalStore, size: int) -> None:
    store.put("a", b"x" * 10_000)
    store.read_range("a", ByteRange(0, 10_000))
    os.truncate(Path(store.uri) / "a", size)
    with pytest.raises(CorruptFileError, match=f"object of {size} bytes"):
        store.read_range("a", ByteRange(0, 10_000))
    assert store.read_range("a", ByteRange(0, size)).size == size


def test_few_files_stay_mapped(store: LocalStore) -> None:
    for number in range(local._MAX_MAPS + 20):
        store.put(f"data/{number}", b"xy")
        # A single small range would be copied.
        store.read_ranges(f"data/{number}", [ByteRange(1, 1)])
    assert len(store._maps) == local._MAX_MAPS


def test_a_file_that_a_clean_up_removes_while_it_is_written(store: LocalStore) -> None:
    output = store.open_output("data/a")
    output.write(b"x" * 100)
    [path] = staged(store)
    path.unlink()
    with pytest.raises(StorageError, match=r"'data/a' in .* was removed while it was written, as a clean-up"):
        output.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted on Linux")
def test_mapped_files_hold_no_descriptors(store: LocalStore) -> None:
    for number in range(20):
        store.put(f"data/{number}", b"xy" * 100_000)
    before = len(os.listdir("/proc/self/fd"))
    kept = [store.read_ranges(f"data/{number}", [ByteRange(0, 200_000)])[0] for number in range(20)]
    assert len(store._maps) == 20
    assert len(os.listdir("/proc/self/fd")) == before
    assert {buffer.to_pybytes() for buffer in kept} == {b"xy" * 100_000}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="maps are listed on Linux")
def test_a_map_lasts_as_long_as_its_last_slice(store: LocalStore) -> None:
    store.put("map", b"xy" * 100_000)
    whole = whole_file(store, "map")
    assert whole is not None
    assert not whole.is_mutable
    store.delete("map")
    name, part = str(Path(store.uri) / "map"), whole.slice(199_990)
    del whole
    assert name in Path("/proc/self/maps").read_text()
    assert part.to_pybytes() == b"xy" * 5
    del part
    assert name not in Path("/proc/self/maps").read_text()


def test_a_small_file_that_is_cut_off_stays_whole(store: LocalStore) -> None:
    store.put("a", b"xy" * 20_000)
    whole = whole_file(store, "a")
    os.truncate(Path(store.uri) / "a", 0)
    assert whole is not None
    assert whole.to_pybytes() == b"xy" * 20_000
    assert mapped_file(store, "a", 40_000, 0, 0) is None
    assert whole_file(store, "a") is None


def test_a_small_file_with_fewer_bytes_than_its_status_says(store: LocalStore) -> None:
    store.put("a", b"x" * 1000)
    with open(Path(store.uri) / "a", "rb") as file:
        assert in_memory.in_memory(file.fileno(), 1001) is None


def test_small_range_is_copied_and_checked(store: LocalStore) -> None:
    store.put("a", b"abc")
    assert store.read_range("a", ByteRange(0, 3)).to_pybytes() == b"abc"
    assert not store._maps
    with pytest.raises(CorruptFileError):
        store.read_range("a", ByteRange(1, 3))
    with pytest.raises(NotFoundError):
        store.read_range("b", ByteRange(0, 1))


def test_a_deleted_file_does_not_stay_mapped(store: LocalStore) -> None:
    store.put("a", b"xy")
    store.read_ranges("a", [ByteRange(1, 1)])
    store.delete("a")
    assert not store._maps


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "renames"])
def test_one_of_many_processes_wins(store: LocalStore, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _failing(errno.EPERM))
    assert_one_of_many_processes_wins(store, rounds=10)
    assert not staged(store)


def _commit_until_killed(directory: str, size: int, fatal_sync: int | None) -> None:
    """Writes until the parent kills this process, or kills it in the fsync of that number, counted from 0."""
    store = open_store(directory)
    numbers, fsync = itertools.count(), os.fsync

    def fsync_or_die(descriptor: int) -> None:
        if next(numbers) == fatal_sync:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    os.fsync = fsync_or_die
    for number in range(1_000_000):
        store.put_if_absent(f"_versions/{number}", bytes([number % 251]) * size)
        store.put("hint", bytes([number % 251]) * size)
        output = store.open_output(f"data/{number}")
        output.write(bytes([number % 251]) * size)
        output.close()


@pytest.mark.slow
def test_a_killed_writer_never_leaves_a_torn_object(store: LocalStore) -> None:
    size = 3_000_000
    context = multiprocessing.get_context("fork")
    rng = random.Random(5)
    left_something = 0
    # The first kills come at known moments: on a slow machine all the random ones may find no write under way.
    for round_, fatal_sync in enumerate([0, 1, 2, 3, *[None] * 10]):
        victim = open_store(f"{store.uri}/{round_}")
        process = context.Process(target=_commit_until_killed, args=(victim.uri, size, fatal_sync))
        process.start()
        if fatal_sync is None:
            time.sleep(0.03 + 0.1 * rng.random())
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        found = list(victim.list("", recursive=True))
        for entry in found:
            assert entry.size == size, entry
            data = victim.read(entry.path).to_pybytes()
            assert data == data[:1] * size
        assert not [entry for entry in found if STAGING_PREFIX in entry.path]
        left_something += bool(staged(victim))  # type: ignore[arg-type]
    # Otherwise the kills all came at harmless moments, and this test has shown nothing.
    assert left_something


def test_what_killed_writers_left_can_be_removed(store: LocalStore) -> None:
    store.put("data/a", b"x")
    old, young = (Path(store.uri) / "data" / f"{STAGING_PREFIX}{name}" for name in ("old", "young"))
    old.write_bytes(b"junk")
    young.write_bytes(b"someone is writing")
    os.utime(old, (time.time() - 7200,) * 2)
    assert [found.path for found in store.list("data")] == ["data/a"]
    assert store.remove_stale_staging("data", 3600) == 1
    assert store.remove_stale_staging("data", 3600) == 0
    assert store.remove_stale_staging("nothing/here", 3600) == 0
    assert not old.exists()
    assert young.exists()


def test_commits_reach_the_disk_before_they_get_their_name(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, link, replace, mkdir = os.fsync, os.link, os.replace, os.mkdir

    def seen_fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        events.append(f"fsync {kind} {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name[:4]}")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "link", lambda *names: events.append("link") or link(*names))
    monkeypatch.setattr(os, "replace", lambda *names: events.append("replace") or replace(*names))
    monkeypatch.setattr(os, "mkdir", lambda name: events.append(f"mkdir {Path(name).name}") or mkdir(name))
    store.put_if_absent("vers/1", b"x")
    parent = Path(store.uri).parent.name[:4]
    made = ["mkdir table", f"fsync folder {parent}", "mkdir vers", "fsync folder tabl"]
    assert events == [*made, "fsync file .tmp", "link", "fsync folder vers"]
    events.clear()
    store.put("vers/hint", b"x")
    assert events == ["fsync file .tmp", "replace", "fsync folder vers"]


@pytest.mark.parametrize("has_links", [True, False])
def test_the_time_of_an_object_is_that_of_its_publication(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """Commits compare these times; a writer may sleep before it publishes the bytes, and before it goes on."""
    link, stat_of = os.link, os.stat
    times: list[float] = []

    def slow_link(staged: str, final: str) -> None:
        time.sleep(0.05)
        times.append(time.time())
        if not has_links:
            raise OSError(errno.EPERM, "no links")
        link(staged, final)

    def slow_stat(path: str) -> os.stat_result:
        times.append(time.time())
        time.sleep(0.05)
        return stat_of(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", slow_link)
        patch.setattr(os, "stat", slow_stat)
        assert store.put_if_absent("o", b"x") is PutResult.CREATED
    modified = store.info("o").modified
    assert modified is not None
    # The clock of files ticks every few milliseconds.
    assert times[0] - 0.02 <= modified.timestamp() <= times[-1]


def test_a_full_disk_is_a_failure_and_leaves_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"x")
    monkeypatch.setattr(os, "write", _failing(errno.ENOSPC))
    with pytest.raises(StorageError, match="No space left"):
        store.put_if_absent("b", b"x")
    with pytest.raises(StorageError, match="No space left"):
        store.put("a", b"y")
    output = store.open_output("c")
    with pytest.raises(StorageError, match="No space left"):
        output.write(bytes(1 << 20))
    output.abort()
    # Small pieces are written together, at the latest when the file is closed.
    output = store.open_output("c")
    output.write(b"x")
    with pytest.raises(StorageError, match="No space left"):
        output.close()
    assert [found.path for found in store.list("")] == ["a"]
    assert store.read("a").to_pybytes() == b"x"
    assert not staged(store)


def test_small_pieces_are_written_together(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: calls.append(len(data)) or write(descriptor, data))
    pieces = [bytes([number % 251]) * 100 for number in range(2000)] + [bytes(1 << 20), b"end"]
    output = store.open_output("a")
    for piece in pieces:
        output.write(piece)
    assert output.tell() == 200_000 + (1 << 20) + 3
    output.close()
    assert store.read("a").to_pybytes() == b"".join(pieces)
    assert len(calls) == 6


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_network_file_system_that_loses_the_reply_is_unknown(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    link = os.link

    def lossy(*names: str) -> None:
        link(*names)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", lossy)
    assert store.put_if_absent("a", b"ours") is PutResult.UNKNOWN
    assert store.read("a").to_pybytes() == b"ours"
    assert not staged(store)


def test_trouble_after_the_object_is_visible_is_unknown(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("warm", b"x")
    monkeypatch.setattr(publish, "flush_directory", _failing(errno.EIO))
    assert store.put_if_absent("a", b"ours") is PutResult.UNKNOWN
    assert store.read("a").to_pybytes() == b"ours"


def test_a_file_system_without_an_atomic_step_is_refused(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there(*_: Any) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(os, "link", _failing(errno.EOPNOTSUPP))
    for rename in [lambda: None, lambda: not_there]:
        monkeypatch.setattr(publish, "_renameat2", rename)
        with pytest.raises(StorageError, match="hard links"):
            store.put_if_absent("a", b"x")
    assert list(store.list("")) == []
    assert not staged(store)


def test_other_writers_staging_names_are_listed(store: LocalStore) -> None:
    store.put("_versions/.tmp_1.manifest", b"x")
    assert [found.path for found in store.list("_versions")] == ["_versions/.tmp_1.manifest"]


@pytest.mark.slow
def test_links_to_folders_are_followed_by_name_but_not_in_listings(store: LocalStore, tmp_path: Path) -> None:
    store.put("a", b"x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b").write_bytes(b"y")
    (Path(store.uri) / "data").symlink_to(elsewhere)
    (Path(store.uri) / "loop").symlink_to(store.uri)
    (Path(store.uri) / "broken").symlink_to("nowhere")
    assert [found.path for found in store.list("data")] == ["data/b"]
    assert [found.path for found in store.list("", recursive=True)] == ["a"]
    with pytest.raises(NotFoundError):
        store.read("broken")


def test_what_no_path_can_name_is_not_listed(store: LocalStore) -> None:
    store.put("a", b"x")
    for name in [b"back\\slash", b"not-utf8-\xff"]:
        (Path(store.uri) / os.fsdecode(name)).write_bytes(b"junk")
        (Path(store.uri) / os.fsdecode(name + b".d")).mkdir()
    assert [found.path for found in store.list("", recursive=True)] == ["a"]
    assert list(store.list_folders("")) == []


def test_listings_tell_size_and_time(store: LocalStore) -> None:
    store.put("a", b"123")
    entry = next(store.list(""))
    assert (entry.path, entry.size) == ("a", 3)
    assert entry.modified is not None
    assert abs(entry.modified - datetime.now(timezone.utc)) < timedelta(minutes=1)


def test_a_relative_root_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("table")
    monkeypatch.chdir("/")
    store.put("a", b"x")
    assert store.uri == "table"
    assert (tmp_path / "table" / "a").read_bytes() == b"x"
    assert pickle.loads(pickle.dumps(store)).read("a").to_pybytes() == b"x"


def test_percent_escapes_are_for_uris(tmp_path: Path) -> None:
    open_store(f"file://{tmp_path}/a%20b").put("x", b"1")
    open_store(f"{tmp_path}/c%20d").put("x", b"1")
    assert sorted(os.listdir(tmp_path)) == ["a b", "c%20d"]


def test_a_name_that_is_too_long(store: LocalStore) -> None:
    for attempt in [lambda: store.put("x" * 300, b""), lambda: store.read("x" * 300)]:
        with pytest.raises(InvalidInputError, match="too long"):
            attempt()


def test_a_file_where_a_folder_should_be(store: LocalStore) -> None:
    store.put("a", b"x")
    with pytest.raises(StorageError):
        store.put("a/b", b"x")
    with pytest.raises(StorageError):
        store.put_if_absent("a/b", b"x")


@pytest.mark.slow
def test_a_forgotten_stream_removes_its_file_but_not_from_a_child(store: LocalStore) -> None:
    output = store.open_output("a")
    output.write(b"x")
    child = os.fork()
    if child == 0:
        output.__del__()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(staged(store)) == 1
    output.close()
    assert store.read("a").to_pybytes() == b"x"
    output = store.open_output("b")
    del output
    assert not staged(store)
