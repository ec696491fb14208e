"""A disk that is full, and files that may not grow: nothing torn stays visible, and the table goes on."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import LanceError, StorageError
from lance_spark.storage import open_store
from lance_spark.table.location import TableLocation
from tests.support.forked import Report, fork
from tests.support.table_steps import BEGIN, STEPS, Content, Step, copy_table, make_table


def numbers(count: int) -> pa.Table:
    return pa.table({"a": pa.array([value * 0x9E3779B97F4A7C15 % (1 << 62) for value in range(count)], pa.int64())})


def files(uri: str) -> list[str]:
    return sorted(entry.path for entry in open_store(uri).list("", recursive=True))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for 512 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True)
    if made.returncode:
        pytest.skip(f"cannot mount a tmpfs: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="module")
def whole() -> str:
    """The table that the tests copy."""
    uri = f"memory://disk-{uuid.uuid4().hex}"
    make_table(TableLocation(uri))
    return uri


def fill(disk: Path, leave_bytes: int) -> Path:
    """A file that leaves room for `leave_bytes`."""
    status = os.statvfs(disk)
    free = status.f_bavail * status.f_frsize
    path = disk / "filler"
    path.write_bytes(bytes(max(0, free - leave_bytes)))
    return path


def test_an_append_that_does_not_fit(small_disk: Path) -> None:
    uri = str(small_disk / "t")
    lance_spark.write(numbers(10), uri)
    before = files(uri)
    with pytest.raises(StorageError, match="No space left"):
        lance_spark.write(numbers(200_000), uri, mode="append")
    assert files(uri) == before
    assert not [path for path in (small_disk / "t").rglob("*") if path.name.startswith(".tmp")]
    assert lance_spark.write(numbers(3), uri, mode="append").count_rows() == 13
    assert lance.dataset(uri).count_rows() == 13


@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
def test_a_change_on_a_disk_that_is_nearly_full(step: Step, small_disk: Path, whole: str) -> None:
    """The disk is full after the first file, after the second, and so on; or full from the start."""
    page = os.sysconf("SC_PAGE_SIZE")
    outcomes = set()
    for pages in (0, 2, 4, 16):
        uri = str(small_disk / f"t{pages}")
        copy_table(whole, uri)
        filler = fill(small_disk, pages * page)
        error = None
        try:
            step.do(TableLocation(uri))
        except LanceError as failed:
            error = failed
        found = Content.of(TableLocation(uri))
        assert found == (step.then(BEGIN) if error is None else BEGIN), f"{pages} pages left: {error!r}"
        outcomes.add(error is None)
        filler.unlink()
        if error is not None:
            step.do(TableLocation(uri))
        assert Content.of(TableLocation(uri)) == step.then(BEGIN)
    assert True in outcomes


def limited(max_file_bytes: int, work: Callable[[], object]) -> Callable[[Report], None]:
    def run(report: Report) -> None:
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
        try:
            work()
        except LanceError:
            report(0)
        else:
            report(1)

    return run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits forked processes")
@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
def test_files_that_may_not_grow(step: Step, tmp_path: Path, whole: str) -> None:
    done = set()
    for max_bytes in (0, 100, 400, 1000, 100_000):
        uri = str(tmp_path / str(max_bytes))
        copy_table(whole, uri)
        worker = fork(limited(max_bytes, lambda uri=uri: step.do(TableLocation(uri))))
        assert worker.join() == 0, "every error is a LanceError"
        found = Content.of(TableLocation(uri))
        assert found == (step.then(BEGIN) if worker.acknowledged == [1] else BEGIN), max_bytes
        done.add(worker.acknowledged[0])
        assert tuple(sorted(lance.dataset(uri).to_table()["a"].to_pylist())) == found.rows
    assert done == ({0, 1} if step.name != "delete tag" else {1})
